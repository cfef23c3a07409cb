"""Reads the server's own series over HTTP."""

import aiohttp

from splitpool_bench.measuring.served import Samples, sums

READ_SECONDS = 10.0


async def read(http: aiohttp.ClientSession, url: str, model: str) -> Samples | None:
    """The sums so far; None where the server has no series that are known here."""
    limit = aiohttp.ClientTimeout(total=READ_SECONDS)
    try:
        async with http.get(url, timeout=limit) as response:
            if response.status != 200:
                return None
            text = await response.text()
    except (aiohttp.ClientError, TimeoutError, UnicodeDecodeError):
        return None
    return sums(text, model)

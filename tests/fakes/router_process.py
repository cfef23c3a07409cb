"""A router started by its command line, as a test sees it: its address, its log, its end."""

import asyncio
import os
import sys


class RouterProcess:
    """A running router."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.url = ""

    async def line(self, word: str) -> str:
        """The next line of stderr that contains a word."""
        assert self.process.stderr is not None
        async with asyncio.timeout(30):
            async for line in self.process.stderr:
                if word in line.decode():
                    return line.decode()
        raise AssertionError(f"the router ended without saying {word!r}")

    async def listens(self) -> None:
        """Until its address is known."""
        self.url = (await self.line("listens on")).split()[-1]

    async def ended(self) -> int:
        """Its exit code."""
        async with asyncio.timeout(30):
            return await self.process.wait()

    async def kill(self) -> None:
        """Ends it if it still runs."""
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


async def start(*args: str, **env: str) -> RouterProcess:
    """A router with these arguments and variables."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "splitpool_router",
        *args,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **env},
    )
    return RouterProcess(process)

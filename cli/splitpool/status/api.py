"""How is an API server asked for objects? Read only; failures sorted by what one can do."""

import os
from dataclasses import dataclass
from typing import Any, TypeAlias

import aiohttp

from splitpool_operator.cluster.kinds import Kind

Object: TypeAlias = dict[str, Any]
_PAGE = 500


class NotFound(Exception):
    """There is no such object, or no such kind."""


class Forbidden(Exception):
    """This user may not; the message is the API server's, with user, verb and resource."""


class Unauthorized(Exception):
    """The credentials are not accepted."""


class Away(Exception):
    """No answer, or none that makes sense; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API server, and the namespace to ask about where none is named."""

    http: aiohttp.ClientSession
    server: str
    namespace: str
    # Of every request: proxy and the name that the server's certificate must have.
    options: dict[str, Any]

    async def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """An object. Raises NotFound, Forbidden, Unauthorized, Away."""
        return await self._ask(kind.path(namespace, name), {})

    async def listed(
        self, kind: Kind, namespace: str | None, *, labels: str = "", fields: str = ""
    ) -> list[Object]:
        """All objects that labels and fields choose. Raises as get does."""
        query = {"limit": str(_PAGE), "labelSelector": labels, "fieldSelector": fields}
        query = {key: value for key, value in query.items() if value}
        found: list[Object] = []
        while True:
            page = await self._ask(kind.path(namespace), query)
            found += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                return found
            query["continue"] = token

    async def _ask(self, path: str, query: dict[str, str]) -> Object:
        url = self.server + path
        try:
            async with self.http.get(url, params=query, **self.options) as response:
                if response.status == 200:
                    answer: Object = await response.json()
                    return answer
                raise await _failure(response)
        except TimeoutError:
            raise Away("it does not answer in time") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Away(_why(error)) from None


async def _failure(response: aiohttp.ClientResponse) -> Exception:
    try:
        said = str((await response.json())["message"])
    except (aiohttp.ClientError, ValueError, KeyError, TypeError):
        said = f"it answers {response.status} {response.reason}"
    match response.status:
        case 401:
            return Unauthorized(said)
        case 403:
            return Forbidden(said)
        case 404:
            return NotFound(said)
    return Away(said)


def _why(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        verified = getattr(error.certificate_error, "verify_message", error.certificate_error)
        return f"its certificate is not trusted: {verified}"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno or 0
        return os.strerror(number) if number > 0 else str(error.os_error.strerror or error)
    if isinstance(error, aiohttp.InvalidURL):
        return "that is no address"
    return str(error) or type(error).__name__

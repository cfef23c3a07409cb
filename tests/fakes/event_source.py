"""An EventSource, as the WHATWG standard describes it: the parser and the rules of reconnection."""

import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import aiohttp

LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What `onmessage` would be given."""

    data: str
    last_event_id: str


class Parser:
    """Bytes of a stream in, events out; an event that the stream leaves unfinished is dropped."""

    def __init__(self, last_event_id: str = "") -> None:
        self.last_event_id = last_event_id
        self._id = last_event_id
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._text = ""
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[Event]:
        self._text += self._decode(chunk)
        while end := LINE_END.search(self._text):
            if end.group() == "\r" and end.end() == len(self._text):
                return  # a "\n" that belongs to it may follow
            line, self._text = self._text[: end.start()], self._text[end.end() :]
            if event := self._line(line):
                yield event

    def _line(self, line: str) -> Event | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value
        return None  # comments (an empty name) and other fields carry no data

    def _dispatch(self) -> Event | None:
        self.last_event_id = self._id
        data, self._data = self._data, []
        if not data:
            return None
        return Event(data="\n".join(data), last_event_id=self.last_event_id)


class EventSource:
    """Reads one URL; whenever a connection ends it may be opened again and goes on from there."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._session = session
        self._url = url
        self._headers = dict(headers or {})
        self.last_event_id = ""
        self.closed = False

    async def connect(self, cut_after: int | None = None) -> list[Event]:
        """Read until the server ends the stream, or cut the connection after `cut_after` events.

        As in a browser 204 means: closed, never connect again; any other status but 200, and any
        other content type, fails the source.
        """
        async with self._session.get(self._url, headers=self._request_headers()) as response:
            if response.status == 204:
                self.closed = True
                return []
            if response.status != 200 or response.content_type != "text/event-stream":
                self.closed = True
                raise ConnectionError(f"{response.status} {response.content_type}")
            return await self._read(response, cut_after)

    async def _read(self, response: aiohttp.ClientResponse, cut_after: int | None) -> list[Event]:
        parser = Parser(self.last_event_id)
        events: list[Event] = []
        async for chunk in response.content.iter_any():
            for event in parser.feed(chunk):
                if len(events) == cut_after:
                    break
                events.append(event)
                self.last_event_id = event.last_event_id
            if len(events) == cut_after:
                response.close()
                break
        return events

    def _request_headers(self) -> dict[str, str]:
        headers = self._headers | {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self.last_event_id:
            headers["Last-Event-ID"] = self.last_event_id
        return headers

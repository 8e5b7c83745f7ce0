"""An engine on a real socket that does exactly what a test tells it to, byte by byte."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from typing_extensions import override

Script = Callable[["Exchange"], Awaitable[None]]

_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n"
)


@dataclass(slots=True)
class Exchange:
    """One request that arrived, and the means to answer it.

    Attributes:
        method: The request's.
        path: Likewise.
        headers: Names in lower case; the last of several wins.
        body: Complete.
        raw_head: The head as it was received.
        client_left: Set when the other side has closed the connection.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    raw_head: bytes
    client_left: asyncio.Event
    _writer: asyncio.StreamWriter
    open_ended: bool = False

    @property
    def json(self) -> dict[str, object]:
        """The body's object."""
        value = json.loads(self.body)
        if not isinstance(value, dict):
            raise TypeError("the body is not an object")
        return value

    async def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        with contextlib.suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def answer(self, body: bytes, *, status: int = 200, content_type: str = "application/json") -> None:
        """Send a whole answer."""
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        await self.write(head.encode() + body)

    async def begin_stream(self) -> None:
        """Send the head of an event stream."""
        await self.write(_STREAM_HEAD)

    async def chunk(self, data: bytes) -> None:
        """Send one HTTP chunk."""
        await self.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def end_stream(self) -> None:
        """End the event stream in order."""
        await self.write(b"0\r\n\r\n")

    async def stream(self, frames: bytes | Iterable[bytes]) -> None:
        """Send a whole event stream, one HTTP chunk per item."""
        await self.begin_stream()
        for piece in [frames] if isinstance(frames, bytes) else frames:
            await self.chunk(piece)
        await self.end_stream()

    def die(self) -> None:
        """Break the connection off, as a killed process does."""
        self._writer.transport.abort()

    def hang_up(self) -> None:
        """Close the connection in order, after what was written."""
        self._writer.close()


@dataclass(slots=True)
class ScriptedEngine:
    """An engine whose every answer is a script.

    Attributes:
        script: What it does with a request for which ``scripts`` has nothing.
        scripts: What it does with the next requests, one each.
        exchanges: Every request, in order of arrival.
        connections: Connections accepted so far.
        open_connections: Connections open now.
        port: On 127.0.0.1, once it listens.
        socket_path: Set, it listens on this unix socket instead.
    """

    script: Script
    scripts: list[Script] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)
    connections: int = 0
    open_connections: int = 0
    port: int = 0
    socket_path: Path | None = None
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _arrival: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def base_url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}" if self.socket_path is None else "http://localhost"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        if self.socket_path is not None:
            self._server = await loop.create_unix_server(lambda: _Protocol(self._serve), str(self.socket_path))
            return self
        self._server = await loop.create_server(lambda: _Protocol(self._serve), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop listening and break every connection off."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def arrived(self, count: int, *, deadline_s: float = 30.0) -> Exchange:
        """Wait until ``count`` requests have arrived; return the last of them."""
        async with asyncio.timeout(deadline_s):
            while len(self.exchanges) < count:
                self._arrival.clear()
                await self._arrival.wait()
        return self.exchanges[count - 1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: asyncio.Event) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self._writers.add(writer)
        self.connections += 1
        self.open_connections += 1
        try:
            while not (left.is_set() or writer.is_closing()):
                await self._serve_one(reader, writer, left)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the test is over, or the other side is
        finally:
            self.open_connections -= 1
            self._writers.discard(writer)
            self._tasks.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: asyncio.Event) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        request_line, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = request_line.split(" ", 2)
        pairs = (line.partition(":") for line in lines if line)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if headers.get("transfer-encoding") == "chunked":
            body = await _read_chunks(reader)
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        exchange = Exchange(method, path, headers, body, head, left, writer)
        script = self.scripts.pop(0) if self.scripts else self.script
        self.exchanges.append(exchange)
        self._arrival.set()
        await script(exchange)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while size := int((await reader.readline()).strip(), 16):
        body += await reader.readexactly(size)
        await reader.readline()
    await reader.readline()
    return bytes(body)


class _Protocol(asyncio.StreamReaderProtocol):
    """Notices the other side's close also while nobody reads."""

    def __init__(
        self, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter, asyncio.Event], Awaitable[None]]
    ) -> None:
        self.left = asyncio.Event()
        super().__init__(asyncio.StreamReader(limit=1 << 26), lambda reader, writer: serve(reader, writer, self.left))

    @override
    def eof_received(self) -> bool:
        self.left.set()
        super().eof_received()
        return False

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        self.left.set()
        super().connection_lost(exc)

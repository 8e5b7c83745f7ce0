"""A client that sends exactly the bytes it is given, and can leave in every way a client can."""

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it came.

    Attributes:
        status: The status.
        headers: Names in lower case; the last of several wins.
        body: Without its chunk framing.
        whole: Whether it ended as its framing says; ``False`` when the connection broke first.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    whole: bool = True

    @property
    def json(self) -> Any:
        """The body's value."""
        return json.loads(self.body)

    @property
    def frames(self) -> list[bytes]:
        """The body's server-sent events, comments left out, without their ends."""
        return [frame for frame in self.body.split(b"\n\n") if frame and not frame.startswith(b":")]

    @property
    def comments(self) -> list[bytes]:
        """The body's comments."""
        return [frame for frame in self.body.split(b"\n\n") if frame.startswith(b":")]


class RawClient:
    """One connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 26)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def send(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._writer.write(data)
        await self._writer.drain()

    async def post(
        self, path: str, body: object, *, headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> None:
        """Send a request; a body that is not bytes is written as JSON."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = {"Host": f"127.0.0.1:{self._port}", "Content-Type": "application/json", **(headers or {})}
        if not any(name.lower() in {"content-length", "transfer-encoding"} for name in lines):
            lines["Content-Length"] = str(len(data))
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        await self.send(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + data)

    async def answer(self, *, deadline_s: float = 60.0, head_only: bool = False) -> Answer:
        """Return the next answer, read to its end."""
        async with asyncio.timeout(deadline_s):
            head = await self._reader.readuntil(b"\r\n\r\n")
            status_line, *lines = head.decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in lines if line)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            status = int(status_line.split(" ")[1])
            if head_only or status in {204, 304} or 100 <= status < 200:
                return Answer(status, headers, b"")
            if headers.get("transfer-encoding") == "chunked":
                body, whole = await self._chunks()
                return Answer(status, headers, body, whole)
            if "content-length" in headers:
                return Answer(status, headers, await self._reader.readexactly(int(headers["content-length"])))
            return Answer(status, headers, await self._reader.read())

    async def read_until(self, mark: bytes, *, deadline_s: float = 60.0) -> bytes:
        """Return what has come up to and including ``mark``, with its framing."""
        async with asyncio.timeout(deadline_s):
            return await self._reader.readuntil(mark)

    async def closed(self, *, deadline_s: float = 60.0) -> bytes:
        """Wait for the server to close; return what came before."""
        async with asyncio.timeout(deadline_s):
            try:
                return await self._reader.read()
            except ConnectionError:
                return b""

    async def _chunks(self) -> tuple[bytes, bool]:
        body = bytearray()
        try:
            while size := int((await self._reader.readuntil(b"\r\n")).strip(), 16):
                body += (await self._reader.readexactly(size + 2))[:-2]
            await self._reader.readuntil(b"\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return bytes(body), False
        return bytes(body), True

    def close(self) -> None:
        """Close in order (FIN)."""
        self._writer.close()

    def stop_reading(self) -> None:
        """Take nothing any more, not even into a buffer."""
        transport = self._writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        transport.pause_reading()

    def half_close(self) -> None:
        """Send no more, but go on reading."""
        self._writer.write_eof()

    def reset(self) -> None:
        """Close with a reset (RST), as a process that is killed with unread data does."""
        sock: socket.socket = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


async def fetch(
    port: int, method: str, path: str, body: object = b"", *, headers: Mapping[str, str] | None = None
) -> Answer:
    """Send one request on a connection of its own; return the answer."""
    async with RawClient(port) as client:
        await client.post(path, body, headers=headers, method=method)
        return await client.answer(head_only=method == "HEAD")

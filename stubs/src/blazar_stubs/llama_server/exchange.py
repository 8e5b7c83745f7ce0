"""One request and its answer, with whatever a script does to the bytes on their way out."""

import base64
import json
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from blazar_stubs.llama_server import wire
from blazar_stubs.llama_server.connection import Connection
from blazar_stubs.llama_server.knobs import Json, Script
from blazar_stubs.llama_server.reactor import Reactor
from blazar_stubs.llama_server.record import Recorder

JSON_TYPE = "application/json; charset=utf-8"
EVENT_TYPE = "text/event-stream"

Headers = Sequence[tuple[str, str]]


class Aborted(Exception):
    """The script ended the connection, or wants it to hang: nothing more is to be written."""


def dumps(value: Any) -> bytes:
    """JSON as nlohmann writes it: compact, UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


class Exchange:
    """Writes one answer."""

    def __init__(
        self, reactor: Reactor, connection: Connection, request: wire.Request, recorder: Recorder, entry: Json
    ) -> None:
        self.reactor = reactor
        self.connection = connection
        self.request = request
        self.recorder = recorder
        self.entry = entry
        self.script: Script = {}
        self._held = bytearray()
        self._body_bytes = 0
        self._started = False
        self._chunked = False

    @property
    def client_left(self) -> bool:
        """Whether the client's side was seen closed."""
        return self.connection.client_left.is_set

    @property
    def is_open(self) -> bool:
        """Whether the status line is already out."""
        return self._started

    def _base(self) -> list[tuple[str, str]]:
        return [("Server", "llama.cpp"), ("Access-Control-Allow-Origin", self.request.header("origin"))]

    def _tail(self, status: int) -> tuple[str, str]:
        closes = status >= 400 or self.request.wants_close or self.connection.is_last
        return ("Connection", "close") if closes else ("Keep-Alive", "timeout=5, max=100")

    def _begin(self, status: int, headers: Headers) -> None:
        self._started = True
        self.entry["status"] = status
        self.connection.send(wire.head(status, headers))

    async def answer(self, status: int, body: bytes, *, content_type: str = JSON_TYPE, headers: Headers = ()) -> None:
        """Give a whole answer."""
        lines = [*self._base(), *headers]
        if content_type:
            lines.append(("Content-Type", content_type))
        lines += [("Content-Length", str(len(body))), self._tail(status)]
        is_head = self.request.method == "HEAD"
        if is_head:
            lines.append(("Accept-Ranges", "bytes"))
        self._begin(status, lines)
        await self.reactor.sleep(self.script.get("first_byte_delay_s", 0.0))
        if not is_head:
            await self._put(body)
        await self._release()

    async def json(self, status: int, value: Any, headers: Headers = ()) -> None:
        """Give a JSON answer."""
        await self.answer(status, dumps(value), headers=headers)

    async def options(self) -> None:
        """Answer a preflight, which upstream does on any path."""
        self._begin(
            200,
            [
                *self._base(),
                ("Access-Control-Allow-Credentials", "true"),
                ("Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"),
                ("Access-Control-Allow-Headers", "*"),
                ("Content-Type", "text/html"),
                self._tail(200),
                ("Content-Length", "0"),
            ],
        )

    async def open_stream(self, *, status: int = 200, content_type: str = EVENT_TYPE, headers: Headers = ()) -> None:
        """Send the head of a chunked answer."""
        self._chunked = True
        accel = [("X-Accel-Buffering", "no")] if content_type == EVENT_TYPE else []
        lines = [*self._base(), *headers, *accel, ("Content-Type", content_type), ("Transfer-Encoding", "chunked")]
        self._begin(status, [*lines, self._tail(status)])
        await self.reactor.sleep(self.script.get("first_byte_delay_s", 0.0))

    async def write(self, data: bytes) -> None:
        """Send a piece of a chunked answer."""
        await self._put(data)
        await self.connection.room()

    async def end_stream(self) -> None:
        """End a chunked answer."""
        await self._release()
        self.connection.send(wire.chunk(b""))

    async def _put(self, data: bytes) -> None:
        """Hold the bytes back if they are to be cut anew, else send them."""
        if self.script.get("cut_every") or self.script.get("cut_at") is not None:
            self._held += data
        else:
            await self._emit(data)

    async def _release(self) -> None:
        """Send what was held back, in exactly the slices asked for, each in a write of its own."""
        if not self._held:
            return
        held, self._held = bytes(self._held), bytearray()
        step = self.script.get("cut_every", 0)
        cuts = list(range(step, len(held), step)) if step else sorted(self.script.get("cut_at", []))
        edges = [0, *[cut for cut in cuts if 0 < cut < len(held)], len(held)]
        for start, end in pairwise(edges):
            await self._emit(held[start:end])
            await self.connection.flushed()
            await self.reactor.sleep(self.script.get("slice_delay_s", 0.0))

    async def _emit(self, data: bytes) -> None:
        if not data:
            return
        if self.entry["first_byte_at"] is None:
            self.entry["first_byte_at"] = time.time()
        limit = self.script.get("close_after_bytes")
        if limit is not None and self._body_bytes + len(data) >= limit:
            self._send_body(data[: limit - self._body_bytes])
            await self.connection.flushed()
            self.abort()
            raise Aborted
        self._send_body(data)

    def _send_body(self, data: bytes) -> None:
        self._body_bytes += len(data)
        self.entry["bytes_sent"] = self._body_bytes
        if data:
            self.connection.send(wire.chunk(data) if self._chunked else data)

    def abort(self) -> None:
        """Break the connection in the scripted manner: ``fin`` (an early end) or ``rst``."""
        if self.script.get("close_mode") == "rst":
            self.connection.reset()
        else:
            self.connection.close()

    async def play_fixed(self) -> bool:
        """Give the scripted fixed answer, if there is one; say whether there was."""
        script = self.script
        if script.get("never_answer"):
            await self.hang()
        if "slices" in script:
            pieces = [_bytes_of(piece) for piece in script["slices"]]
            if script.get("raw"):
                for piece in pieces:
                    self.connection.send(piece)
                    await self.connection.flushed()
                    await self.reactor.sleep(script.get("slice_delay_s", 0.0))
                self.abort()
                raise Aborted
            await self._play_slices(pieces)
            return True
        if "body" in script or "status" in script:
            body = script.get("body", b"")
            raw = dumps(body) if isinstance(body, dict | list) else str(body or "").encode()
            headers = list(script.get("headers", {}).items())
            kind = next((value for name, value in headers if name.lower() == "content-type"), JSON_TYPE)
            rest = [(name, value) for name, value in headers if name.lower() != "content-type"]
            await self.answer(script.get("status", 200), raw, content_type=kind, headers=rest)
            return True
        return False

    async def _play_slices(self, pieces: list[bytes]) -> None:
        headers = list(self.script.get("headers", {}).items())
        kind = next((value for name, value in headers if name.lower() == "content-type"), EVENT_TYPE)
        rest = [(name, value) for name, value in headers if name.lower() != "content-type"]
        await self.open_stream(status=self.script.get("status", 200), content_type=kind, headers=rest)
        for piece in pieces:
            await self._emit(piece)
            await self.connection.flushed()
            await self.reactor.sleep(self.script.get("slice_delay_s", 0.0))
        await self.end_stream()

    async def hang(self) -> None:
        """Say nothing more until the client leaves."""
        await self.connection.client_left.wait()
        raise Aborted


def _bytes_of(piece: Any) -> bytes:
    """A slice: text, ``{"base64": ...}`` or ``{"hex": ...}``."""
    match piece:
        case {"base64": str(text)}:
            return base64.b64decode(text)
        case {"hex": str(text)}:
            return bytes.fromhex(text)
        case _:
            return str(piece).encode()

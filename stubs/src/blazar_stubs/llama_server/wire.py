"""HTTP/1.1 as cpp-httplib speaks it: requests out of bytes, response heads into bytes. No sockets here."""

import re
from collections.abc import Sequence

REASONS = {
    200: "OK", 304: "Not Modified", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    413: "Payload Too Large", 415: "Unsupported Media Type", 429: "Too Many Requests",
    500: "Internal Server Error", 501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable",
    504: "Gateway Timeout",
}  # fmt: skip

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nServer: llama.cpp\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


_ESCAPES = re.compile(rb"%([0-9A-Fa-f]{2})")


def unquote(text: str) -> str:
    """Undo percent-encoding (urllib.parse does it too, but takes longer to import than to write)."""
    raw = _ESCAPES.sub(lambda found: bytes([int(found.group(1), 16)]), text.encode("latin-1", "replace"))
    return raw.decode("utf-8", "replace")


class BadRequest(Exception):
    """What came is not HTTP."""


class Request:
    """One request, complete with its body."""

    __slots__ = ("body", "headers", "method", "path", "query", "target", "version")

    def __init__(self, method: str, target: str, version: str, headers: list[tuple[str, str]]) -> None:
        self.method = method
        self.target = target
        self.version = version
        self.headers = headers
        self.body = b""
        raw_path, _, raw_query = target.partition("?")
        self.path = unquote(raw_path)
        self.query: dict[str, str] = {}
        for pair in raw_query.split("&"):
            name, _, value = pair.partition("=")
            if name:
                self.query[unquote(name)] = unquote(value.replace("+", " "))

    def header(self, name: str) -> str:
        """The first header of that name, or an empty text."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    @property
    def wants_close(self) -> bool:
        """Whether the client said that this is its last request here."""
        return self.header("connection").lower() == "close"


class RequestParser:
    """Takes bytes as they come, gives requests as they are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._pending: Request | None = None
        self._chunked = False
        self._left = 0
        self.wants_continue = False

    @property
    def is_empty(self) -> bool:
        """Whether no request has begun."""
        return not self._buffer and self._pending is None

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        self._buffer += data

    def next_request(self) -> Request | None:
        """The next complete request, or None until more bytes come.

        Raises:
            BadRequest: The bytes are not HTTP.
        """
        if self._pending is None and not self._take_head():
            return None
        request = self._pending
        if request is None or not (self._take_chunks(request) if self._chunked else self._take_body(request)):
            return None
        self._pending = None
        return request

    def _take_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        parts = lines[0].split(" ")
        if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
            raise BadRequest
        headers = []
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise BadRequest
            headers.append((name, value.strip()))
        request = Request(parts[0], parts[1], parts[2], headers)
        self._chunked = "chunked" in request.header("transfer-encoding").lower()
        length = request.header("content-length")
        if length and not length.isdigit():
            raise BadRequest
        self._left = int(length or 0)
        self.wants_continue = request.header("expect").lower() == "100-continue"
        self._pending = request
        return True

    def _take_body(self, request: Request) -> bool:
        if len(self._buffer) < self._left:
            return False
        request.body = bytes(self._buffer[: self._left])
        del self._buffer[: self._left]
        return True

    def _take_chunks(self, request: Request) -> bool:
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                return False
            try:
                size = int(bytes(self._buffer[:end]).split(b";")[0], 16)
            except ValueError:
                raise BadRequest from None
            if len(self._buffer) < end + 2 + size + 2:
                return False
            request.body += bytes(self._buffer[end + 2 : end + 2 + size])
            del self._buffer[: end + 2 + size + 2]
            if size == 0:
                return True


def head(status: int, headers: Sequence[tuple[str, str]]) -> bytes:
    """A status line and headers."""
    lines = [f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body; the empty piece ends it."""
    return b"%x\r\n%s\r\n" % (len(data), data)

"""A client that hides nothing: raw status, headers and bytes, and a stream read as it comes.

The official SDKs are used where a promise is about them; everything else is seen through this.
"""

import http.client
import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 120.0
"""Seconds without a byte after which a test fails; generous, since machines are shared."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One whole answer.

    Attributes:
        status: Of the status line.
        headers: As sent, in order; names in lower case.
        body: Without the transfer encoding.
    """

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the header's first value, or ``None``."""
        return next((value for key, value in self.headers if key == name.lower()), None)

    def json(self) -> Any:
        """Return the body, decoded."""
        return json.loads(self.body)

    def text(self) -> str:
        """Return the body as text."""
        return self.body.decode()

    def events(self) -> list[Any]:
        """Return the decoded ``data:`` events of an event stream, ``[DONE]`` as that text, comments left out."""
        return decode_events(self.body)

    def content(self) -> str:
        """Return the text of a chat answer, streamed or not."""
        if (self.header("content-type") or "").startswith("text/event-stream"):
            return content_of(self.events())
        return str(self.json()["choices"][0]["message"]["content"])


def decode_events(stream: bytes) -> list[Any]:
    """Return the ``data:`` events of an event stream."""
    found: list[Any] = []
    for frame in stream.decode().split("\n\n"):
        for line in frame.split("\n"):
            if line.startswith("data: "):
                data = line.removeprefix("data: ")
                found.append(data if data == "[DONE]" else json.loads(data))
    return found


def content_of(events: list[Any]) -> str:
    """Return the text that the deltas of a chat stream add up to."""
    return "".join(
        choice["delta"].get("content") or ""
        for event in events
        if isinstance(event, dict)
        for choice in event.get("choices") or []
    )


class Client:
    """Calls to one address; a connection a call, so that calls from several threads do not meet."""

    def __init__(self, url: str, *, trust: ssl.SSLContext | None = None) -> None:
        parts = urlsplit(url)
        self._trust = trust
        self.url = url
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or 80

    def get(self, path: str, *, headers: Mapping[str, str] | None = None) -> Answer:
        """GET a path."""
        return self.call("GET", path, headers=headers)

    def post(self, path: str, body: object, *, headers: Mapping[str, str] | None = None) -> Answer:
        """POST a body as JSON, or bytes as they are."""
        return self.call("POST", path, body, headers=headers)

    def call(self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None) -> Answer:
        """Make a call and return the whole answer."""
        with self.open(method, path, body, headers=headers) as response:
            return Answer(response.status, _headers(response), response.read())

    @contextmanager
    def open(
        self, method: str, path: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Iterator[http.client.HTTPResponse]:
        """Make a call and hand out the answer while it arrives; leaving the block closes the connection."""
        if self._trust is None:
            connection = http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)
        else:
            connection = http.client.HTTPSConnection(self.host, self.port, timeout=TIMEOUT_S, context=self._trust)
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if raw is not None else {}
        try:
            connection.request(method, path, raw, {**sent, **(headers or {})})
            yield connection.getresponse()
        finally:
            connection.close()

    def send_raw(self, data: bytes) -> socket.socket:
        """Send bytes on a connection of its own and return the socket; the caller closes it."""
        connection = socket.create_connection((self.host, self.port), timeout=TIMEOUT_S)
        connection.sendall(data)
        return connection

    def chat(self, model: str, prompt: str = "hi", **fields: Any) -> Answer:
        """Ask a model, by the OpenAI route."""
        return self.post("/v1/chat/completions", chat_body(model, prompt, **fields))


def chat_body(model: str, prompt: str = "hi", **fields: Any) -> dict[str, Any]:
    """Return the body of a chat with one user message."""
    return {"model": model, "messages": [{"role": "user", "content": prompt}], **fields}


def _headers(response: http.client.HTTPResponse) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), value) for name, value in response.getheaders())

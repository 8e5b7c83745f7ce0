"""The requests that are sent."""

import json
from dataclasses import dataclass

MODEL = "m"

PLACE = b"@@@@"
"""What each client replaces by a number of its own: identical chats at once would be asked of the engine once."""

_MESSAGES = [{"role": "user", "content": f"hi {PLACE.decode()} " + "word " * 50}]


def numbered(body: bytes, number: int) -> bytes:
    """Return a body as one client sends it; all have the same length."""
    return body.replace(PLACE, b"%04d" % (number % 10_000))


@dataclass(frozen=True, slots=True)
class Workload:
    """One kind of request, sent over and over.

    Attributes:
        name: As the table shows it.
        path: Of the URL.
        body: JSON bytes.
        wanted: The least ratio to the bare pass-through that is wanted (requests per second, 16 clients).
    """

    name: str
    path: str
    body: bytes
    wanted: float


def _body(**fields: object) -> bytes:
    return json.dumps({"model": MODEL, **fields}, separators=(",", ":")).encode()


WORKLOADS = (
    Workload("calls", "/tokenize", _body(content="hello there"), 0.6),
    Workload("chats", "/v1/chat/completions", _body(messages=_MESSAGES, max_tokens=20), 0.35),
    Workload("streams", "/v1/chat/completions", _body(messages=_MESSAGES, max_tokens=200, stream=True), 0.8),
)

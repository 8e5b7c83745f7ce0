"""The requests that are sent."""

import json
from dataclasses import dataclass

MODEL = "m"

_MESSAGES = [{"role": "user", "content": "hi " + "word " * 50}]


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

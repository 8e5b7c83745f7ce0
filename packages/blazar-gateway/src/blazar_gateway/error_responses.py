"""How a failure looks on the wire: one table from code to status, one envelope per dialect.

What is thrown is a :class:`~blazar_routing.errors.LaneError`, or :class:`EngineRefusal` for an answer that the engine
itself gave. Both become a :class:`WireError`, which each dialect wraps in its own envelope. The text is the error's
own, byte for byte, in every dialect.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import assert_never

import orjson

from blazar_routing.errors import InvalidRequest, LaneError, MethodNotAllowed, PromptTooLong, QueueFull

QUEUE_LENGTH = "x-blazar-queue-length"
"""With a 503 of a full queue: how many requests wait for the model."""
QUEUE_POSITION = "x-blazar-queue-position"
"""With it: the place in line that this request would have had, counted from 1."""


class Dialect(StrEnum):
    """Whose API a route belongs to."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    OLLAMA = "ollama"


_OPENAI_ONLY = ("/v1/chat/", "/v1/completions", "/v1/responses", "/v1/embeddings")


def dialect_of(path: str, headers: Mapping[str, str]) -> Dialect:
    """Return the dialect in which ``path`` answers, and fails.

    ``/v1/models`` and unknown ``/v1`` routes are shared; there the ``anthropic-version`` header decides.
    """
    if path.startswith(_OPENAI_ONLY):
        return Dialect.OPENAI
    if path.startswith("/api/"):
        return Dialect.OLLAMA
    if path.startswith("/v1/messages") or (path.startswith("/v1/") and "anthropic-version" in headers):
        return Dialect.ANTHROPIC
    return Dialect.OPENAI


@dataclass(frozen=True, slots=True)
class WireError:
    """A failure as clients are told of it.

    Attributes:
        status: The HTTP status, where the status line is still ours to send.
        type: OpenAI's ``error.type``.
        code: OpenAI's ``error.code``: a word, never a number.
        message: The text.
        param: The field at fault, or ``None``.
        retry_after_s: Whole seconds for ``Retry-After``, or ``None``.
        should_retry: What ``x-should-retry`` says; ``None`` leaves it to the client's own rule for the status.
        extra: Further members of OpenAI's error object (what the engine says of a prompt that is too long).
        allow: Methods for the ``Allow`` header.
        headers: Headers that only this failure has.
    """

    status: int
    type: str
    code: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None
    should_retry: bool | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


class EngineRefusal(Exception):
    """The engine answered, and its answer is an error; it goes to the client with its own status and text."""

    def __init__(self, wire: WireError) -> None:
        self.wire = wire
        super().__init__(wire.message)


@dataclass(frozen=True, slots=True)
class _Row:
    status: int
    type: str
    # The word that clients of the dialect compare, where it is another than the error's own code.
    code: str | None = None
    # Set where the client's own rule for the status would be wrong: SDKs retry 408, 409, 429 and everything from 500.
    should_retry: bool | None = None


_INVALID = "invalid_request_error"
_SERVER = "server_error"

WIRE_TABLE: Mapping[str, _Row] = {
    "lane-error": _Row(500, _SERVER),
    # Models.
    "model-not-found": _Row(404, _INVALID),
    "model-file-missing": _Row(404, _INVALID),
    "model-unreadable": _Row(400, _INVALID),
    "model-does-not-fit": _Row(400, _INVALID),
    "context-does-not-fit": _Row(400, _INVALID),
    "model-stopped": _Row(503, _SERVER),
    # Fetching models.
    "pull-refused": _Row(400, _INVALID),
    "pull-not-found": _Row(404, _INVALID),
    "pull-failed": _Row(502, _SERVER, should_retry=False),
    # Engines. A load that failed fails again: somebody has to change something first.
    "unknown-engine-kind": _Row(400, _INVALID),
    "engine-missing": _Row(400, _INVALID),
    "engine-binary-missing": _Row(500, _SERVER, should_retry=False),
    "not-an-engine": _Row(400, _INVALID),
    "profile-rejected": _Row(400, _INVALID),
    "load-failed": _Row(500, _SERVER, should_retry=False),
    "load-timeout": _Row(504, _SERVER, should_retry=False),
    "engine-crashed": _Row(502, _SERVER, should_retry=True),
    "engine-unreachable": _Row(502, _SERVER, should_retry=True),
    "engine-stalled": _Row(504, _SERVER, should_retry=False),
    "breaker-open": _Row(503, _SERVER),
    # Keys and quotas.
    "key-missing": _Row(401, _INVALID, code="invalid_api_key"),
    "key-invalid": _Row(401, _INVALID, code="invalid_api_key"),
    "keys-conflict": _Row(401, _INVALID, code="invalid_api_key"),
    "model-not-allowed": _Row(403, _INVALID),
    "too-many-concurrent": _Row(429, "rate_limit_error", code="rate_limit_exceeded"),
    "rate-limited": _Row(429, "rate_limit_error", code="rate_limit_exceeded"),
    "daily-quota-spent": _Row(429, "insufficient_quota", code="insufficient_quota", should_retry=False),
    "management-closed": _Row(403, _INVALID),
    "last-key": _Row(409, _INVALID, should_retry=False),
    "key-name-taken": _Row(409, _INVALID, should_retry=False),
    "no-such-key": _Row(404, _INVALID),
    "key-malformed": _Row(400, _INVALID),
    # Waiting.
    "queue-full": _Row(503, _SERVER),
    "deadline-missed": _Row(503, _SERVER),
    "shutting-down": _Row(503, _SERVER),
    # The request itself.
    "invalid-request": _Row(400, _INVALID),
    "body-too-large": _Row(413, _INVALID),
    # Agents look for this word to shorten their history.
    "prompt-too-long": _Row(400, _INVALID, code="context_length_exceeded"),
    "unsupported-endpoint": _Row(404, _INVALID),
    "response-not-found": _Row(404, _INVALID),
    "previous-response-not-found": _Row(400, _INVALID),
    "method-not-allowed": _Row(405, _INVALID),
    "origin-refused": _Row(403, _INVALID),
    "host-refused": _Row(403, _INVALID),
    "admin-only": _Row(403, _INVALID),
    "internal-error": _Row(500, _SERVER),
}
"""``LaneError.code`` to status and OpenAI type.

The code on the wire is the same word with underscores, unless the row has another.
"""

_ANTHROPIC_TYPES: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def wire_error(error: LaneError) -> WireError:
    """Return how ``error`` looks on the wire."""
    row = WIRE_TABLE.get(error.code, WIRE_TABLE["lane-error"])
    return WireError(
        status=row.status,
        type=row.type,
        code=row.code or error.code.replace("-", "_"),
        message=str(error),
        param=_param(error),
        retry_after_s=error.retry_after_s,
        should_retry=row.should_retry,
        extra=_extra(error),
        allow=error.allowed if isinstance(error, MethodNotAllowed) else (),
        headers=_headers(error),
    )


def _param(error: LaneError) -> str | None:
    if isinstance(error, InvalidRequest | PromptTooLong):
        return error.param
    return "model" if error.code == "model-not-found" else None


def _extra(error: LaneError) -> dict[str, object]:
    """Return members of OpenAI's error object besides the usual ones; llama-server's names, where it has some."""
    if isinstance(error, PromptTooLong):
        return {"n_prompt_tokens": error.needed, "n_ctx": error.ctx}
    return {}


def _headers(error: LaneError) -> dict[str, str]:
    if isinstance(error, QueueFull):
        return {QUEUE_LENGTH: str(error.waiting), QUEUE_POSITION: str(error.position)}
    return {}


def error_body(dialect: Dialect, wire: WireError, *, request_id: str) -> bytes:
    """Return the body of an error answer, in the dialect's envelope."""
    return orjson.dumps(_envelope(dialect, wire, request_id))


def error_frame(dialect: Dialect, wire: WireError, *, request_id: str) -> bytes:
    """Return what ends a stream that has begun: the same envelope, framed as the dialect's streams are."""
    body = error_body(dialect, wire, request_id=request_id)
    match dialect:
        case Dialect.OPENAI:
            return b"data: " + body + b"\n\n"
        case Dialect.ANTHROPIC:
            return b"event: error\ndata: " + body + b"\n\n"
        case Dialect.OLLAMA:
            return body + b"\n"
        case _:
            assert_never(dialect)


def _envelope(dialect: Dialect, wire: WireError, request_id: str) -> dict[str, object]:
    match dialect:
        case Dialect.OPENAI:
            error = {"message": wire.message, "type": wire.type, "param": wire.param, "code": wire.code}
            return {"error": {**error, **wire.extra}}
        case Dialect.ANTHROPIC:
            kind = _ANTHROPIC_TYPES.get(wire.status, "api_error" if wire.status >= 500 else "invalid_request_error")
            return {"type": "error", "error": {"type": kind, "message": wire.message}, "request_id": request_id}
        case Dialect.OLLAMA:
            # Ollama's clients show `error` as it is, so it stays a string; the code is ours, for the command line.
            return {"error": wire.message, "code": wire.code}
        case _:
            assert_never(dialect)


def error_headers(wire: WireError) -> dict[str, str]:
    """Return the headers that go with an error's status."""
    headers: dict[str, str] = dict(wire.headers)
    if wire.retry_after_s is not None:
        headers["Retry-After"] = str(wire.retry_after_s)
    if wire.should_retry is not None:
        headers["x-should-retry"] = "true" if wire.should_retry else "false"
    if wire.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if wire.allow:
        headers["Allow"] = ", ".join(wire.allow)
    return headers

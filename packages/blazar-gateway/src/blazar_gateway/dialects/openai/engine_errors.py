"""An engine's own errors, as OpenAI's clients expect them.

The text is the engine's. The status is too, unless it would make a client repeat what cannot succeed: llama-server
answers 500 to some requests that are the client's mistake, and 501 where an ability is missing.
"""

import orjson

from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.error_responses import WireError

_TYPES = {
    "exceed_context_size_error": "invalid_request_error",
    "not_supported_error": "invalid_request_error",
    "not_found_error": "invalid_request_error",
    "unavailable_error": "server_error",
}
"""llama-server's types that OpenAI does not have."""

_CLIENTS_FAULT = (
    "image input is not supported",
    "audio input is not supported",
    "Failed to load image or audio",
    "json.exception.parse_error",
    "Failed to parse tool call arguments",
    "is too large to process",
)
"""What llama-server (b10434) says with status 500 although the request is at fault."""

_PARSE_TROUBLE = ("Invalid diff", "Failed to parse", "does not match the expected")
"""What it says when its own parser cannot follow the model's text, tool calls mostly."""

MAX_TEXT = 2000


def is_parse_trouble(error: JsonObject) -> bool:
    """Return whether an error within a stream means that the engine could not parse the model's text.

    The same request without a stream may succeed: the text is parsed once, at the end.
    """
    message = error.get("message")
    return isinstance(message, str) and any(sign in message for sign in _PARSE_TROUBLE)


def from_answer(status: int, body: bytes) -> WireError:
    """Return the error in an engine's answer with a status of 400 or more."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = None
    error = value.get("error") if isinstance(value, dict) else None
    match error:
        case dict():
            return from_object(error, status=status)
        case str():
            return from_object({"message": error}, status=status)
        case _:
            text = body[:MAX_TEXT].decode("utf-8", "replace").strip()
            return from_object({"message": text or f"the engine answered with status {status}"}, status=status)


def from_object(error: JsonObject, *, status: int | None = None) -> WireError:
    """Return an engine's ``error`` object as the wire has it.

    Args:
        error: The object.
        status: The answer's status, or ``None`` for an error within a stream, where the object's ``code`` tells.
    """
    message = error.get("message")
    text = message if isinstance(message, str) and message else "the engine reported an error without a text"
    number = error.get("code")
    if status is None:
        status = number if isinstance(number, int) and 400 <= number < 600 else 500
    kind = error.get("type")
    given = kind if isinstance(kind, str) and kind else None
    status = _status(status, text)
    return WireError(
        status=status,
        type=_type(given, status),
        code=_code(given, number, status),
        message=text,
        param=_optional_text(error.get("param")),
        retry_after_s=1 if status == 503 else None,
        extra={name: value for name, value in error.items() if name not in {"message", "type", "code", "param"}},
    )


def _status(status: int, text: str) -> int:
    if status == 501 or (status == 500 and any(sign in text for sign in _CLIENTS_FAULT)):
        return 400
    return status


def _type(given: str | None, status: int) -> str:
    if given is None or (status < 500 and given == "server_error"):
        return "invalid_request_error" if status < 500 else "server_error"
    return _TYPES.get(given, given)


def _code(given: str | None, number: object, status: int) -> str:
    if isinstance(number, str) and number:
        return number
    if given == "exceed_context_size_error":
        # Agents look for this word to compact their history.
        return "context_length_exceeded"
    if given is None or given in {"invalid_request_error", "server_error"}:
        # Those say no more than the type does.
        return "invalid_request" if status < 500 else "engine_error"
    return given


def _optional_text(value: object) -> str | None:
    return value if isinstance(value, str) else None

"""Request bodies as JSON, with nlohmann's words for what is not."""

import json
from typing import Any

from blazar_stubs.llama_server.exchange import Exchange
from blazar_stubs.llama_server.knobs import Json
from blazar_stubs.llama_server.prompts import ServerFault


def read_json(exchange: Exchange) -> Any:
    """The decoded body.

    Raises:
        ServerFault: It is not JSON; upstream answers 500 for that.
    """
    text = exchange.request.body.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except ValueError as error:
        raise ServerFault(_parse_error(text, error)) from None


def read_object(exchange: Exchange) -> Json:
    """The decoded body, where anything else than an object counts as an empty one."""
    value = read_json(exchange)
    return value if isinstance(value, dict) else {}


def required(body: Json, name: str, fault: type[Exception]) -> Any:
    """A field that upstream takes with ``at``.

    Raises:
        fault: It is not there.
    """
    if name not in body:
        raise fault(f"[json.exception.out_of_range.403] key '{name}' not found")
    return body[name]


def _parse_error(text: str, error: ValueError) -> str:
    head = "[json.exception.parse_error.101] parse error at line"
    if not text:
        return (
            f"{head} 1, column 1: attempting to parse an empty input; check that your input string or stream "
            "contains the expected JSON"
        )
    position = getattr(error, "pos", len(text))
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    if not text[position:].strip():
        what = "unexpected end of input; expected '[', '{', or a literal"
    else:
        what = f"invalid literal; last read: '{text[: position + 1][-20:]}'"
    return f"{head} {line}, column {column}: syntax error while parsing value - {what}"

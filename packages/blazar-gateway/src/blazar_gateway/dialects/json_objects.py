"""From the bytes of a request body to a JSON object, and the name in it that every endpoint needs."""

from collections.abc import Mapping
from typing import cast

import orjson

from blazar_routing.errors import InvalidRequest

JsonObject = dict[str, object]

_BOM = b"\xef\xbb\xbf"


def parse_object(body: bytes) -> JsonObject:
    """Return the object that ``body`` holds.

    A byte order mark is skipped. Numbers beyond 64 bits become floats. Depth is bounded by the parser.

    Raises:
        InvalidRequest: The body is empty, is not UTF-8, is not JSON (a lone surrogate counts), or not an object.
    """
    if body.startswith(_BOM):
        body = body[len(_BOM) :]
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(_complaint(body, error)) from None
    if type(value) is not dict:
        raise InvalidRequest(f"the request body must be a JSON object, not {json_kind(value)}.")
    return cast("JsonObject", value)


def _complaint(body: bytes, error: orjson.JSONDecodeError) -> str:
    if not body.strip():
        return "missing request body: this endpoint takes a JSON object."
    if body[:2] in {b"\xff\xfe", b"\xfe\xff"} or b"\x00" in body[:4]:
        return "the request body is not UTF-8; JSON is sent as UTF-8."
    try:
        body.decode()
    except UnicodeDecodeError as broken:
        return (
            f"the request body is not UTF-8: its byte {broken.start} is 0x{body[broken.start]:02x}. "
            "JSON is sent as UTF-8; write the text in it, or escape what is not ASCII as \\uXXXX."
        )
    if error.msg.endswith("surrogate in string"):
        return (
            f"the request body holds half a character: a \\uD800 to \\uDFFF escape without its other half, line "
            f"{error.lineno}, column {error.colno}. A text was cut in the middle of an emoji; cut it elsewhere."
        )
    return f"the request body is not valid JSON: {error.msg}, line {error.lineno}, column {error.colno}."


def name_in(body: Mapping[str, object], *fields: str, missing: str) -> str:
    """Return the name that the first of ``fields`` holds that is not empty.

    Args:
        body: Of the request.
        fields: Where the name may stand; a mistake is told of the first.
        missing: What is said where none holds anything.

    Raises:
        InvalidRequest: None does, or what it holds is no string.
    """
    field = next((one for one in fields if body.get(one) not in (None, "")), None)
    if field is None:
        raise InvalidRequest(missing, param=fields[0])
    name = body[field]
    if not isinstance(name, str):
        raise InvalidRequest(f"`{field}` must be a string, not {json_kind(name)}.", param=field)
    return name


def dump(value: object) -> bytes:
    """Return ``value``, which was parsed from a request, as JSON.

    Raises:
        InvalidRequest: It is nested more deeply than can be written (254 levels; reading goes down to 1024).
    """
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise InvalidRequest(f"the request body cannot be passed on: {error}.") from None


def json_kind(value: object) -> str:
    """Return what JSON calls a value's type, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
        case _:
            return "an object"

"""The plain parameters of a generation: their types, checked and made regular.

Null means absent everywhere. SDKs of loosely typed languages send whole numbers as floats; those become integers.
Only nonsense is refused, with the field's name; ranges are the engine's business, and unknown fields pass.
"""

from collections.abc import Callable, Mapping

from blazar_gateway.dialects.json_objects import JsonObject, json_kind
from blazar_routing.errors import InvalidRequest

Check = Callable[[str, object], object]
"""Takes a field's name and value (not null); returns the value to use, the same object if it is fine as it is."""


def check_fields(fields: JsonObject, checks: Mapping[str, Check]) -> bool:
    """Check ``fields`` in place; return whether a value was replaced.

    Raises:
        InvalidRequest: A value is of the wrong type; the error names the field.
    """
    changed = False
    for name, value in fields.items():
        check = checks.get(name)
        if check is None or value is None:
            continue
        regular = check(name, value)
        if regular is not value:
            # The key is there already, so the iteration is not disturbed.
            fields[name] = regular
            changed = True
    return changed


def whole_number(name: str, value: object) -> object:
    """Accept an integer; turn ``1.0`` into 1. One beyond 64 bits was parsed as a float, and stays one."""
    if type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value) if abs(value) < 2**63 else value
    raise _wrong(name, value, "a whole number")


def number(name: str, value: object) -> object:
    """Accept any number."""
    if type(value) is int or type(value) is float:
        return value
    raise _wrong(name, value, "a number")


def boolean(name: str, value: object) -> object:
    """Accept true and false."""
    if type(value) is bool:
        return value
    raise _wrong(name, value, "true or false")


def boolean_or_number(name: str, value: object) -> object:
    """Accept what ``logprobs`` is: a boolean in chats, a count in completions."""
    if type(value) is bool:
        return value
    return whole_number(name, value)


def text(name: str, value: object) -> object:
    """Accept a string."""
    if type(value) is str:
        return value
    raise _wrong(name, value, "a string")


def mapping(name: str, value: object) -> object:
    """Accept an object."""
    if type(value) is dict:
        return value
    raise _wrong(name, value, "an object")


def array(name: str, value: object) -> object:
    """Accept an array."""
    if type(value) is list:
        return value
    raise _wrong(name, value, "an array")


def mapping_or_array(name: str, value: object) -> object:
    """Accept what ``logit_bias`` is: OpenAI's object, or llama-server's list of pairs."""
    if isinstance(value, dict | list):
        return value
    raise _wrong(name, value, "an object")


def count(name: str, value: object) -> object:
    """Accept an integer of at least 1."""
    regular = whole_number(name, value)
    if isinstance(regular, int) and regular >= 1:
        return regular
    raise InvalidRequest(f"{name} must be at least 1, not {regular}.", param=name)


def token_limit(name: str, value: object) -> object:
    """Accept an integer of at least -1, which is how local users say "no limit"."""
    regular = whole_number(name, value)
    if isinstance(regular, int) and regular >= -1:
        return regular
    raise InvalidRequest(f"{name} must be at least 1 (or -1 for no limit), not {regular}.", param=name)


def stop_sequences(name: str, value: object) -> object:
    """Accept a string or strings, and leave the empty ones out: an engine would stop at once."""
    if type(value) is str:
        return value or []
    if type(value) is not list:
        raise _wrong(name, value, "a string or an array of strings")
    for index, item in enumerate(value):
        if type(item) is not str:
            raise _wrong(f"{name}[{index}]", item, "a string")
    return value if all(value) else [item for item in value if item]


def objects(name: str, value: object) -> object:
    """Accept an array of objects."""
    if type(value) is not list:
        raise _wrong(name, value, "an array of objects")
    for index, item in enumerate(value):
        if type(item) is not dict:
            raise _wrong(f"{name}[{index}]", item, "an object")
    return value


def token_numbers(name: str, value: object) -> object:
    """Accept an array of token numbers."""
    if type(value) is not list:
        raise _wrong(name, value, "an array of whole numbers")
    for index, item in enumerate(value):
        if type(item) is not int or not 0 <= item < 2**31:
            raise _wrong(f"{name}[{index}]", item, "a token's number")
    return value


def mixed_text(name: str, value: object) -> object:
    """Accept a string, or an array of strings and token numbers."""
    if type(value) is str:
        return value
    if type(value) is not list:
        raise _wrong(name, value, "a string, or an array of strings and token numbers")
    for index, item in enumerate(value):
        if type(item) is not str and (type(item) is not int or not 0 <= item < 2**31):
            raise _wrong(f"{name}[{index}]", item, "a string or a token's number")
    return value


SHARED_CHECKS: Mapping[str, Check] = {
    "model": text,
    "stream": boolean,
    "stream_options": mapping,
    "max_tokens": token_limit,
    "n": count,
    "stop": stop_sequences,
    "seed": whole_number,
    "temperature": number,
    "top_p": number,
    "top_k": whole_number,
    "min_p": number,
    "typical_p": number,
    "presence_penalty": number,
    "frequency_penalty": number,
    "repeat_penalty": number,
    "repeat_last_n": whole_number,
    "logit_bias": mapping_or_array,
    "user": text,
    "grammar": text,
    "cache_prompt": boolean,
    "timings_per_token": boolean,
    "return_progress": boolean,
}
"""What chats and text completions have in common."""

_TOKEN: JsonObject = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}

SCHEMAS: Mapping[Check, JsonObject] = {
    whole_number: {"type": "integer"},
    number: {"type": "number"},
    boolean: {"type": "boolean"},
    boolean_or_number: {"type": ["boolean", "integer"]},
    text: {"type": "string"},
    mapping: {"type": "object"},
    array: {"type": "array"},
    mapping_or_array: {"type": ["object", "array"]},
    count: {"type": "integer", "minimum": 1},
    token_limit: {"type": "integer", "minimum": -1},
    objects: {"type": "array", "items": {"type": "object"}},
    token_numbers: {"type": "array", "items": _TOKEN},
    mixed_text: {"anyOf": [{"type": "string"}, {"type": "array", "items": {"anyOf": [{"type": "string"}, _TOKEN]}}]},
    stop_sequences: {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
}
"""What each check accepts, as a JSON Schema; a test holds the two against each other."""


def _wrong(name: str, value: object, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"{name} must be {wanted}, not {json_kind(value)}.", param=name)

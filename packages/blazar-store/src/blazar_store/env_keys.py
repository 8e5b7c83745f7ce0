"""Keys in the environment: ``BLAZAR_KEYS``, for containers and services without a configuration file."""

import json
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from blazar_store.errors import ConfigInvalid, ConfigProblem
from blazar_store.settings_keys import KeyEntry, each_once

VARIABLE = "BLAZAR_KEYS"

_ENTRY = TypeAdapter(KeyEntry)


def parse_env_keys(text: str) -> tuple[KeyEntry, ...]:
    """Return the keys in a value of ``BLAZAR_KEYS``.

    It is a JSON array of objects with the fields of ``[[keys]]``, or ``name=secret`` pairs separated by commas.

    Raises:
        ConfigInvalid: It is neither. No secret is in the text.
    """
    text = text.strip()
    if not text:
        return ()
    values = _from_json(text) if text.startswith(("[", "{")) else _from_pairs(text)
    entries = tuple(_entry(value, number) for number, value in enumerate(values, 1))
    try:
        return each_once(entries)
    except ValueError as error:
        raise _invalid(f"it must have {error}.") from error


def _from_json(text: str) -> list[object]:
    try:
        values = json.loads(text)
    except ValueError:
        values = None
    if not isinstance(values, list):
        raise _invalid('it is not a JSON array of objects such as [{"name": "alice", "key": "SECRET", "rpm": 60}].')
    return values


def _from_pairs(text: str) -> list[object]:
    values: list[object] = []
    for number, pair in enumerate(text.split(","), 1):
        name, equals, secret = pair.strip().partition("=")
        if not equals:
            raise _invalid(f"entry {number} has no '='; write NAME=SECRET,NAME=SECRET or a JSON array.")
        values.append({"name": name.strip(), "key": secret.strip()})
    return values


def _entry(value: object, number: int) -> KeyEntry:
    try:
        return _ENTRY.validate_python(value)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in fault["loc"])
        where = f"`{place}` of entry {number}" if place else f"entry {number}"
        own = fault.get("ctx", {}).get("error")
        what = f"must be {own}" if own is not None else f"cannot be used: {fault['msg'].lower()}"
        raise _invalid(f"{where} {what}.") from None


def _invalid(message: str) -> ConfigInvalid:
    return ConfigInvalid(path=Path(VARIABLE), problems=(ConfigProblem(message, key=VARIABLE),))

"""Reading ``config.toml``, and saying in one sentence each what is wrong with it."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from blazar_store.errors import ConfigInvalid, ConfigProblem
from blazar_store.files import read_plain_file
from blazar_store.settings_fields import Settings, Sources
from blazar_store.settings_models import ModelSettings, ModelTable
from blazar_store.settings_request import RequestParameters
from blazar_store.settings_values import ComeTogether
from blazar_store.settings_words import expectation, tables
from blazar_store.toml_lines import KeyPath, line_of, locate_keys

_SECRET = frozenset({"key", "hash"})
_TOML_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")


def load_settings(path: Path, *, below: Mapping[str, Any] = MappingProxyType({})) -> Settings:
    """Read the configuration file; one that does not exist means the defaults.

    Args:
        path: The file.
        below: Settings from elsewhere, which hold where the file does not say otherwise.

    Raises:
        ConfigInvalid: It cannot be read or used; the error lists every problem with its line.
    """
    return parse_settings(read_config(path), path=path, below=below)


def read_config(path: Path) -> str:
    """Return the text of the configuration file, empty if there is none.

    Raises:
        ConfigInvalid: It cannot be read, or is not UTF-8.
    """
    try:
        # Line ends as they are: an edit must not change those of a file from Windows.
        return read_plain_file(path).decode("utf-8-sig")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError as error:
        message = f"the file is not UTF-8 text (byte {error.start}); save it as UTF-8."
        raise ConfigInvalid(path=path, problems=(ConfigProblem(message),)) from error
    except OSError as error:
        message = f"the file cannot be read: {error.strerror}; correct its permissions or set BLAZAR_CONFIG."
        raise ConfigInvalid(path=path, problems=(ConfigProblem(message),)) from error


def parse_settings(text: str, *, path: Path, below: Mapping[str, Any] = MappingProxyType({})) -> Settings:
    """Return the settings that ``text`` says.

    Args:
        text: The content of a ``config.toml``.
        path: Where it came from, for the error only.
        below: Settings from elsewhere, known to be valid, which hold where the text does not say otherwise.

    Raises:
        ConfigInvalid: It cannot be used.
    """
    try:
        return _parse(text, path=path, below=below)
    except RecursionError as error:
        message = "arrays or tables stand in each other hundreds deep, which no setting needs; take some out."
        raise ConfigInvalid(path=path, problems=(ConfigProblem(message),)) from error


def _parse(text: str, *, path: Path, below: Mapping[str, Any]) -> Settings:
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid(path=path, problems=(_broken_toml(str(error), text),)) from error
    except ValueError as error:
        # Not one of TOML's: Python reads no number of more than 4300 digits.
        found = re.search(r"[0-9_]{4301,}", text)
        line = text.count("\n", 0, found.start()) + 1 if found else None
        message = "a number has thousands of digits, which no setting needs; correct it."
        raise ConfigInvalid(path=path, problems=(ConfigProblem(message, line=line),)) from error
    if nulls := tuple(_null_characters(data, locate_keys(text))):
        raise ConfigInvalid(path=path, problems=nulls)
    try:
        return Settings.model_validate(_over(below, data))
    except ValidationError as error:
        lines = locate_keys(text)
        problems = tuple(_problems(error, data, lines))
        raise ConfigInvalid(path=path, problems=problems) from error


def _null_characters(data: object, lines: dict[KeyPath, int], path: KeyPath = ()) -> Iterable[ConfigProblem]:
    """Yield each text with a null character: an engine's command line would end there, without a word."""
    inner: Iterable[tuple[str | int, object]] = ()
    if isinstance(data, dict):
        inner = data.items()
    elif isinstance(data, list):
        inner = enumerate(data)
    for part, value in inner:
        here = (*path, part)
        if any(isinstance(text, str) and "\0" in text for text in (part, value)):
            name = _dotted(here).replace("\0", "\\u0000")
            message = f"`{name}` holds a null character (\\u0000), which no text here can have; take it out."
            yield ConfigProblem(message, key=name, line=line_of(here, lines))
        else:
            yield from _null_characters(value, lines, here)


def _over(below: Mapping[str, Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Return both, the second first; tables are merged name by name."""
    merged = {**below, **data}
    for name, value in below.items():
        own = data.get(name)
        if isinstance(value, Mapping) and isinstance(own, Mapping):
            merged[name] = {**value, **own}
    return merged


def _broken_toml(message: str, text: str) -> ConfigProblem:
    match = _TOML_PLACE.search(message)
    what = (message[: match.start()] if match else message).rstrip(".")
    if match and match[1]:
        line, column = int(match[1]), int(match[2])
    else:
        rows = text.split("\n")
        line, column = len(rows), len(rows[-1]) + 1
    return ConfigProblem(
        f"this is not valid TOML: {what}; check quotes, brackets and the line's end.", line=line, column=column
    )


def _problems(error: ValidationError, data: Mapping[str, Any], lines: dict[KeyPath, int]) -> Iterable[ConfigProblem]:
    seen: set[KeyPath] = set()
    found: list[tuple[int, ConfigProblem]] = []
    for fault in error.errors(include_url=False):
        path = _path_in(data, fault["loc"])
        if path in seen:  # each branch of a union reports the same value
            continue
        seen.add(path)
        if fault["type"] == "extra_forbidden":
            message = _unknown(path)
        elif fault["type"] == "missing":
            message = f"`{_dotted(path)}` must have a `{fault['loc'][-1]}`."
        elif fault["loc"][-1] == "[key]":
            message = f"[{_dotted(path)}] cannot be the name of a model: {fault['ctx']['error']}."
        elif fault["type"] == "value_error" and isinstance(fault["ctx"]["error"], ComeTogether):
            message = str(fault["ctx"]["error"])
        else:
            own_check = str(fault["ctx"]["error"]) if fault["type"] == "value_error" else None
            message = _wrong(path, _at(data, path), own_check)
        line = line_of(path, lines)
        found.append((line or 0, ConfigProblem(message, key=_dotted(path), line=line)))
    found.sort(key=lambda pair: pair[0])
    return [problem for _line, problem in found]


def _wrong(path: KeyPath, value: object, own_check: str | None) -> str:
    """Return the sentence about a value; the text of a check of ours continues "must be"."""
    if own_check is not None and isinstance(value, dict | list):
        return f"`{_dotted(path)}` must be {own_check}."
    if path[:1] == ("keys",) and path[-1] in _SECRET:
        # What was written is never repeated: this goes to logs and screens.
        return f"`{_dotted(path)}` must be {own_check or 'a text in quotes'}."
    wanted = own_check or expectation(path)
    return f"`{_dotted(path)}` must be {wanted}, but is {_value(value, whole='whole number' in wanted)}."


def _path_in(data: Mapping[str, Any], loc: tuple[str | int, ...]) -> KeyPath:
    """Return the part of pydantic's location that exists in the file; the rest names branches of a union."""
    here: Any = data
    path: KeyPath = ()
    for part in loc:
        in_table = isinstance(here, dict) and part in here
        in_array = isinstance(here, list) and isinstance(part, int) and part < len(here)
        if not in_table and not in_array:
            break
        here = here[part]
        path += (part,)
    return path


def _at(data: Mapping[str, Any], path: KeyPath) -> object:
    here: Any = data
    for part in path:
        here = here[part]
    return here


def _unknown(path: KeyPath) -> str:
    name, table = str(path[-1]), path[:-1]
    if path == ("api_keys",):
        return (
            "`api_keys` is what earlier versions had; `blazar migrate` turns it into [[keys]] entries, "
            "with their secrets hashed, and keeps a backup."
        )
    names = tables(table)
    where = f"in [{_dotted(table)}]" if table else "at the top level"
    elsewhere = _belongs(name, table)
    if elsewhere is not None:
        return f"`{name}` is not a setting {where}; it belongs {elsewhere}."
    nearest = max(names, key=lambda known: difflib.SequenceMatcher(None, name.lower(), known).ratio())
    return f"unknown setting `{name}` {where}; the nearest valid name is `{nearest}`."


def _belongs(name: str, table: KeyPath) -> str | None:
    """Return the table in which ``name`` would be right, if it is exactly the name of a setting there."""
    if table and name in Settings.model_fields and name not in {"models", "defaults", "sources", "keys", "preload"}:
        return "at the top of the file, before the first [table]"
    if name in RequestParameters.model_fields and table[:1] in {("models",), ("defaults",)}:
        request = _dotted(table if table[-1] == "request" else (*table, "request"))
        return f"in [{request}.default] (where a request does not say) or [{request}.force] (in any case)"
    if table[:1] == ("defaults",) and name in ModelTable.model_fields and name not in ModelSettings.model_fields:
        return 'in [models."NAME"]'
    if table[:1] not in {("models",), ("defaults",)} and name in ModelSettings.model_fields:
        return 'in [defaults] (all models) or [models."NAME"] (one)'
    if table != ("sources",) and name in Sources.model_fields:
        return "in [sources]"
    return None


def _dotted(path: KeyPath) -> str:
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        bare = re.fullmatch(r"[A-Za-z0-9_-]+", part) is not None
        text += ("." if text else "") + (part if bare else json.dumps(part, ensure_ascii=False))
    return text


def _value(value: object, *, whole: bool) -> str:
    """Return a value as it would be written, with its type in words; long ones are cut.

    Args:
        value: What was written.
        whole: Whether a number was wanted that is whole.
    """
    match value:
        case bool():
            return f"{str(value).lower()} (a boolean)"
        case int():
            return str(value) if -(2**63) <= value < 2**64 else "a number beyond 64 bits"
        case float():
            return f"{value} (not a whole number)" if whole else str(value)
        case str():
            text = json.dumps(value, ensure_ascii=False)
            return f"{text if len(text) <= 60 else text[:57] + '...'} (text)"
        case list():
            return "an array"
        case dict():
            return "a table"
        case _:
            return f"{value} (a date or time)"

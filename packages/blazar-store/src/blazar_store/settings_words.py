"""The settings described in words: for error texts, the reference page, the schema and the sample file.

Everything is derived from the models in :mod:`blazar_store.settings_fields`, so that no text can disagree with what is
accepted.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from blazar_store.settings_engine import LoraAdapter
from blazar_store.settings_fields import Settings, Sources
from blazar_store.settings_keys import MOST, KeyEntry
from blazar_store.settings_models import ModelSettings, ModelTable
from blazar_store.settings_preload import PreloadEntry
from blazar_store.settings_request import RequestParameters, RequestSettings
from blazar_store.toml_lines import KeyPath

_TABLES: Mapping[str, type[BaseModel]] = {
    "": Settings,
    "defaults": ModelSettings,
    "defaults.request": RequestSettings,
    "defaults.request.default": RequestParameters,
    'models."NAME"': ModelTable,
    "sources": Sources,
    "keys": KeyEntry,
    "preload": PreloadEntry,
}
_NESTED = frozenset({"defaults", "models", "sources", "keys", "preload"})
_DESCRIBED_ELSEWHERE = {
    "": _NESTED,
    "defaults": frozenset({"request"}),
    "defaults.request": frozenset({"default", "force"}),
    'models."NAME"': frozenset(ModelSettings.model_fields),
}
"""Settings that are tables, or stand in another one already."""

_REMARKS = {
    "defaults": '# For all models; a table [models."NAME"] has the same settings for one.',
    "defaults.request": "# What is done with the parameters of requests, in whatever API they come.",
    "defaults.request.default": "# Where a request does not say; [defaults.request.force] has the same for any case.",
    'models."NAME"': "# What makes sense for one model only.",
}

_LISTS = {
    "keys": "# One such table for each key, with `key` or `hash`; `blazar keys add NAME` makes one.",
    "preload": "# One such table for each model to load when the daemon starts. None makes another one go.",
}
"""Tables that may stand several times, and what the sample says of them."""


@dataclass(frozen=True, slots=True)
class SettingDescription:
    """One setting, for people.

    Attributes:
        name: As written in the file.
        table: ``""`` for the top level, ``defaults`` (also right in ``[models."NAME"]``), ``sources``, ``keys`` or
            ``preload``.
        type: What it must be, in words: ``a whole number from 0 to 65535``.
        default: The default as TOML, or ``""`` when absent means that something else decides.
        example: A value that is right, as TOML: the default where there is one.
        summary: What it does, one sentence.
        needs_restart: Whether a running daemon keeps the old value until it is started anew.
    """

    name: str
    table: str
    type: str
    default: str
    example: str
    summary: str
    needs_restart: bool


def describe_settings() -> tuple[SettingDescription, ...]:
    """Return every setting: the top level, then each table, all in order of declaration."""
    return tuple(
        SettingDescription(
            name=name,
            table=table,
            type=_words(_property(model, name)),
            default="" if field.is_required() else _toml(field.default),
            example=_toml(field.examples[0] if field.examples else field.default),
            summary=field.description or "",
            needs_restart=needs_restart(table.partition(".")[0] or name),
        )
        for table, model in _TABLES.items()
        for name, field in model.model_fields.items()
        if name not in _DESCRIBED_ELSEWHERE.get(table, ())
    )


def needs_restart(name: str) -> bool:
    """Return whether the top-level setting ``name`` is read only when the daemon starts."""
    extra = _field(Settings, name).json_schema_extra
    return isinstance(extra, dict) and extra.get("x-restart") is True


def settings_schema() -> dict[str, Any]:
    """Return the JSON Schema of ``config.toml``, which editors use to complete and check it."""
    schema = Settings.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "Blazar's config.toml"}


def sample_config() -> str:
    """Return a ``config.toml`` in which every setting stands in a comment, with what it does and a right value.

    Used as it is, it changes nothing; removing a ``#`` makes a setting one's own. The value shown is the default
    where there is one.
    """
    lines = ["# Blazar's configuration. All of it is comments; remove the '# ' before a setting to use it."]
    table = ""
    for setting in describe_settings():
        if setting.table != table:
            table = setting.table
            lines += ["", f"# [[{table}]]" if table in _LISTS else f"# [{table}]"]
            if table in _LISTS:
                lines.append(_LISTS[table])
            if table in _REMARKS:
                lines.append(_REMARKS[table])
        restart = " Takes effect at the next start." if setting.needs_restart else ""
        lines += ["", f"# {setting.summary}{restart}", f"# ({setting.type})"]
        lines.append(f"# {setting.name} = {setting.example}")
    return "\n".join(lines) + "\n"


def tables(path: KeyPath) -> tuple[str, ...]:
    """Return the names that are valid in the table at ``path`` of the file."""
    return tuple(_model_at(path).model_fields)


def expectation(path: KeyPath) -> str:
    """Return what the value at ``path`` must be: ``a whole number from 0 to 65535``."""
    if len(path) == 1 and path[0] in _LISTS:
        return f"tables [[{path[0]}]]"
    if (path[0] in {"models", *_LISTS} and len(path) < 3) or (len(path) == 1 and path[0] in _NESTED):
        return "a table"
    names = [part for part in path if isinstance(part, str)]
    schema = _property(_model_at(tuple(names[:-1])), names[-1])
    if isinstance(path[-1], int):
        return _words(schema.get("items", {}))
    return _words(schema)


def _model_at(table: KeyPath) -> type[BaseModel]:
    if not table:
        return Settings
    in_models = table[0] == "models"
    model: type[BaseModel] = ModelTable if in_models else _TABLES.get(str(table[0]), Settings)
    for part in table[2 if in_models else 1 :]:
        if part == "lora":
            model = LoraAdapter
        elif part == "request":
            model = RequestSettings
        elif model is RequestSettings and part in {"default", "force"}:
            model = RequestParameters
    return model


def _field(model: type[BaseModel], name: str) -> FieldInfo:
    return model.model_fields[name]


def _property(model: type[BaseModel], name: str) -> Mapping[str, Any]:
    """Return the setting's part of the JSON Schema, without the ``null`` that stands for absent."""
    schema: Mapping[str, Any] = _properties(model)[name]
    choices = [choice for choice in schema.get("anyOf", []) if choice.get("type") != "null"]
    if not choices:
        return schema
    return choices[0] if len(choices) == 1 else {"anyOf": choices}


@cache
def _properties(model: type[BaseModel]) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = model.model_json_schema()["properties"]
    return properties


def _words(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_words(choice) for choice in schema["anyOf"])
    if "$ref" in schema:
        return "a table"
    if "enum" in schema:
        return f"one of {', '.join(json.dumps(value) for value in schema['enum'])}"
    if "const" in schema:
        return json.dumps(schema["const"])
    match schema.get("type"):
        case "integer":
            if schema["maximum"] == MOST:
                return f"a non-negative integer ({schema['minimum']} or more)"
            return f"a whole number from {schema['minimum']} to {schema['maximum']}"
        case "number":
            return f"a number from {schema['minimum']:g} to {schema['maximum']:g}"
        case "boolean":
            return "true or false"
        case "object":
            return "a table"
        case "array":
            return f"an array of texts{' or tables' if 'anyOf' in schema['items'] else ''}"
        case _:
            return "a text in quotes"


def _toml(value: object) -> str:
    """Return a default as TOML; JSON and TOML agree on all but tables."""
    match value:
        case None:
            return ""
        case dict():
            return f"{{ {', '.join(f'{name} = {_toml(inner)}' for name, inner in value.items())} }}"
        case _:
            return json.dumps(value)

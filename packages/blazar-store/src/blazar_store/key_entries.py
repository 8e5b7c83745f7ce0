"""``[[keys]]`` as they are edited: functions on a TOML document, for :meth:`blazar_store.config_file.ConfigFile.edit`.

They change nothing else in the document, comments included. Whether a change is allowed is the caller's question; the
result is checked as every edit is.
"""

import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any

import tomlkit
from tomlkit.items import AoT

from blazar_store.key_secrets import hash_secret

_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def names(document: tomlkit.TOMLDocument) -> tuple[str, ...]:
    """Return the names of the keys, in the order of the file."""
    return tuple(str(entry.get("name")) for entry in _entries(document))


def append_key(document: tomlkit.TOMLDocument, fields: Mapping[str, object]) -> None:
    """Add an entry after the others.

    Args:
        document: It may have no keys yet.
        fields: As they stand in the file; those that are ``None`` are left out.
    """
    table = tomlkit.table()
    for name, value in fields.items():
        if value is not None:
            table.add(name, list(value) if isinstance(value, tuple) else value)
    entries = document.get("keys")
    if entries is None:
        document.append("keys", tomlkit.aot())
        entries = document["keys"]
    entries.append(table)


def remove_key(document: tomlkit.TOMLDocument, name: str) -> None:
    """Remove the entry of that name, if there is one."""
    entries: Any = document.get("keys", ())
    for index, entry in enumerate(entries):
        if entry.get("name") == name:
            del entries[index]
            break
    if isinstance(entries, AoT) and not entries:
        del document["keys"]


def set_hash(document: tomlkit.TOMLDocument, name: str, hashed: str) -> None:
    """Give the entry of that name another secret; one that was written plainly goes."""
    for entry in _entries(document):
        if entry.get("name") == name:
            entry.pop("key", None)
            entry["hash"] = hashed


@dataclass(frozen=True, slots=True)
class Migrated:
    """What :func:`migrate_keys` changed; empty when there was nothing to do.

    Attributes:
        moved: Names of the keys that came from ``api_keys``.
        hashed: Names of the keys that stood plainly in ``[[keys]]``.
    """

    moved: tuple[str, ...] = ()
    hashed: tuple[str, ...] = ()


def migrate_keys(document: tomlkit.TOMLDocument) -> Migrated:
    """Turn ``api_keys`` of earlier versions into ``[[keys]]``, and every plain secret into its hash.

    ``api_keys`` may be an array of secrets, an array of tables with ``name`` and ``key``, or a table of secrets by
    name. A secret that a key has already is not added again, so doing this twice does nothing.

    Raises:
        ValueError: ``api_keys`` is none of these; the text continues "``api_keys``".
    """
    hashed = []
    for entry in _entries(document):
        if isinstance(entry.get("key"), str):
            entry["hash"] = hash_secret(str(entry.pop("key")))
            hashed.append(str(entry.get("name")))
    legacy = document.get("api_keys")
    if legacy is None:
        return Migrated(hashed=tuple(hashed))
    found = list(_legacy(legacy.unwrap()))
    del document["api_keys"]
    moved = []
    for name, secret in found:
        if any(entry.get("hash") == hash_secret(secret) for entry in _entries(document)):
            continue
        free = _free_name(name, names(document))
        append_key(document, {"name": free, "hash": hash_secret(secret)})
        moved.append(free)
    return Migrated(tuple(moved), tuple(hashed))


def _legacy(value: object) -> Iterator[tuple[str, str]]:
    """Yield name and secret of every legacy key; a key without a name is numbered."""
    pairs: list[tuple[object, object]]
    match value:
        case dict():
            pairs = list(value.items())
        case list():
            pairs = [(item.get("name"), item.get("key")) if isinstance(item, dict) else (None, item) for item in value]
        case _:
            raise ValueError("must be an array or a table")
    for number, (name, secret) in enumerate(pairs, 1):
        if not isinstance(secret, str) or not secret:
            raise ValueError(f"has something else than a text as its secret number {number}")
        yield (name if isinstance(name, str) and name else f"key-{number}", secret)


def _free_name(wanted: str, taken: tuple[str, ...]) -> str:
    name = _NO_NAME.sub("-", wanted)[:120] or "key"
    number = 2
    free = name
    while free in taken:
        free = f"{name}-{number}"
        number += 1
    return free


def _entries(document: tomlkit.TOMLDocument) -> Iterator[MutableMapping[str, Any]]:
    for entry in document.get("keys", ()):
        if isinstance(entry, MutableMapping):
            yield entry

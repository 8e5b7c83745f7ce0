"""Rows of the database as the frozen types that neighbours hold, and back."""

import json
import os
import sqlite3
from pathlib import Path

from blazar_store.database import Value
from blazar_store.overlays import overlay_of, overlay_text
from blazar_store.types import EngineRow, ModelRow

MODEL_COLUMNS = (
    "name", "path", "shards", "mmproj_path", "format", "arch", "params", "quant", "ctx_train", "size_bytes",
    "digest", "capabilities", "engine", "pulled", "added_at", "modified_at", "template_readable", "overlay",
    "components",
)  # fmt: skip
ENGINE_COLUMNS = ("tag", "kind", "server_path", "local", "version", "commit", "active", "installed_at")


def model_values(row: ModelRow) -> tuple[Value, ...]:
    """Return the row's values in the order of :data:`MODEL_COLUMNS`."""
    return (
        row.name,
        path_value(row.path),
        json.dumps([str(shard) for shard in row.shards]),
        None if row.mmproj_path is None else path_value(row.mmproj_path),
        row.format,
        row.arch,
        row.params,
        row.quant,
        row.ctx_train,
        row.size_bytes,
        row.digest,
        json.dumps(row.capabilities),
        row.engine,
        int(row.pulled),
        row.added_at,
        row.modified_at,
        int(row.template_readable),
        overlay_text(row.overlay),
        json.dumps([[flag, str(path)] for flag, path in row.components]),
    )


def model_row(row: sqlite3.Row) -> ModelRow:
    """Return the model that a row of the table says."""
    path = value_path(row["path"])
    shards = tuple(Path(shard) for shard in json.loads(row["shards"]))
    mmproj = row["mmproj_path"]
    return ModelRow(
        name=row["name"],
        path=path,
        shards=shards or (path,),
        mmproj_path=None if mmproj is None else value_path(mmproj),
        format=row["format"],
        arch=row["arch"],
        params=row["params"],
        quant=row["quant"],
        ctx_train=row["ctx_train"],
        size_bytes=row["size_bytes"],
        digest=row["digest"],
        capabilities=tuple(json.loads(row["capabilities"])),
        engine=row["engine"],
        pulled=bool(row["pulled"]),
        added_at=row["added_at"],
        modified_at=row["modified_at"],
        template_readable=bool(row["template_readable"]),
        overlay=overlay_of(row["overlay"]),
        components=tuple((flag, Path(path)) for flag, path in json.loads(row["components"])),
    )


def engine_values(row: EngineRow, *, data_dir: Path) -> tuple[Value, ...]:
    """Return the row's values in the order of :data:`ENGINE_COLUMNS`; in-tree paths become relative."""
    return (
        row.tag,
        row.kind,
        relativize_server_path(row.server_path, data_dir=data_dir),
        int(row.local),
        row.version,
        row.commit,
        int(row.active),
        row.installed_at,
    )


def engine_row(row: sqlite3.Row, *, data_dir: Path) -> EngineRow:
    """Return the engine that a row of the table says, its path anchored to where the data directory is now."""
    return EngineRow(
        tag=row["tag"],
        kind=row["kind"],
        server_path=anchor_server_path(row["server_path"], data_dir=data_dir),
        local=bool(row["local"]),
        version=row["version"],
        commit=row["commit"],
        active=bool(row["active"]),
        installed_at=row["installed_at"],
    )


def relativize_server_path(path: Path, *, data_dir: Path) -> str | bytes:
    """Return the stored form of a server's path: relative to the data directory if it is in its ``engines/``.

    The data directory may be reached through symbolic links; a path that names the same place is in-tree too. A
    link *inside* the tree is kept as it is written.
    """
    for base, inner in ((data_dir, path), (Path(os.path.realpath(data_dir)), path.parent.resolve() / path.name)):
        if inner.is_relative_to(base / "engines") and ".." not in inner.parts:
            return path_value(inner.relative_to(base))
    return path_value(path)


def anchor_server_path(value: str | bytes, *, data_dir: Path) -> Path:
    """Return the absolute path that a stored one means today."""
    return data_dir / value_path(value)


def path_value(path: Path) -> str | bytes:
    """Return a path as SQLite can hold it: text, or bytes where the file system's name is not UTF-8."""
    raw = os.fsencode(path)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw


def value_path(value: str | bytes) -> Path:
    """Return the path that :func:`path_value` stored."""
    return Path(os.fsdecode(value) if isinstance(value, bytes) else value)

"""Bringing databases of earlier versions up to date.

Imported only when there is something to migrate. All steps of one opening run in one transaction, after a copy
of the file was made: a failure leaves the old version in place and untouched.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping

import sqlite_utils

from blazar_store.database import Database, backup_path
from blazar_store.errors import DatabaseDamaged
from blazar_store.files import sync_directory, typed_os_errors
from blazar_store.schema import SCHEMA_VERSION, V4, V5, V6, V7, V8, V9

_Row = Mapping[str, object]


def migrate(database: Database) -> None:
    """Bring an older database up to :data:`SCHEMA_VERSION`, keeping a copy as ``blazar.db.v<N>.bak``.

    Two processes may open the same old file at once: one migrates, the other finds it done.

    Raises:
        DatabaseDamaged: The file lacks the tables that every version had; it is not Blazar's.
        StoreError: SQLite or the disk refused; the old version stands.
    """
    with database.write():
        found = database.schema_version()
        if found >= SCHEMA_VERSION:
            return
        tables = sqlite_utils.Database(database.connection, execute_plugins=False)
        if not {"models", "engines"} <= set(tables.table_names()):
            raise DatabaseDamaged(
                path=database.path, reason="it has none of Blazar's tables, so another program may have written it"
            )
        _back_up(database, found)
        for version, step in _STEPS:
            if found < version:
                step(tables)
                database.connection.execute(f"PRAGMA user_version = {version}")


def _back_up(database: Database, version: int) -> None:
    """Copy the file as it is committed now; a second connection reads it beside our open transaction."""
    target = backup_path(database.path, version)
    partial = target.with_name(f"{target.name}.tmp")
    with typed_os_errors(target):
        partial.unlink(missing_ok=True)
        source = sqlite3.connect(database.path, isolation_level=None)
        copy = sqlite3.connect(partial, isolation_level=None)
        try:
            source.backup(copy)
        finally:
            copy.close()
            source.close()
        partial.chmod(0o600)
        partial.replace(target)
        sync_directory(target.parent)


def _to_4(tables: sqlite_utils.Database) -> None:
    """Version 4 knows engine kinds.

    Earlier versions had ``models`` and ``engines`` with fewer columns, and of engines only llama.cpp. Rows keep
    what they have; the rest gets the value that was implied. Exactly one engine ends up active.
    """
    models = [_model_of_3(row) for row in tables["models"].rows]
    engines = _one_active([_engine_of_3(row) for row in tables["engines"].rows])
    for table in ("models", "engines"):
        tables[table].drop()
    for statement in V4:
        tables.execute(statement)
    tables.table("models").insert_all(models)
    tables.table("engines").insert_all(engines)


def _model_of_3(row: _Row) -> dict[str, object]:
    path = row["path"]
    added_at = row.get("added_at") or row.get("pulled_at") or int(time.time())
    return {
        "name": row["name"],
        "path": path,
        "shards": _shards_of_3(row.get("shards")),
        "mmproj_path": row.get("mmproj_path"),
        "format": row.get("format") or ("gguf" if str(path).lower().endswith(".gguf") else "safetensors"),
        "arch": row.get("arch") or "",
        "params": row.get("params"),
        "quant": row.get("quant") or "",
        "ctx_train": row.get("ctx_train"),
        "size_bytes": row.get("size_bytes") or 0,
        "digest": row.get("digest") or "",
        "capabilities": row.get("capabilities") or '["completion"]',
        "engine": row.get("engine"),
        "pulled": 1 if row.get("pulled_at") else 0,
        "added_at": added_at,
        "modified_at": row.get("modified_at") or added_at,
    }


def _shards_of_3(value: object) -> str:
    """Return the stored list of files if it is one, else an empty one, which means the path alone."""
    try:
        shards = json.loads(value) if isinstance(value, str) else []
    except ValueError:
        shards = []
    return json.dumps([shard for shard in shards if isinstance(shard, str)] if isinstance(shards, list) else [])


def _engine_of_3(row: _Row) -> dict[str, object]:
    tag = str(row["tag"])
    return {
        "tag": tag,
        "kind": row.get("kind") or "llamacpp",
        "server_path": row["server_path"],
        "local": 1 if tag == "local" else 0,
        "version": row.get("version") or "",
        "commit": row.get("commit") or "",
        "active": 1 if row.get("active") else 0,
        "installed_at": row.get("installed_at") or int(time.time()),
    }


def _one_active(engines: list[dict[str, object]]) -> list[dict[str, object]]:
    """Leave one engine of each kind active: an active one if there is any, the newest of those."""
    chosen: dict[object, dict[str, object]] = {}
    for engine in sorted(engines, key=lambda row: (row["active"], row["installed_at"])):
        chosen[engine["kind"]] = engine
    for engine in engines:
        engine["active"] = 1 if chosen[engine["kind"]] is engine else 0
    return engines


def _to_5(tables: sqlite_utils.Database) -> None:
    """Version 5 remembers what keys used."""
    for statement in V5:
        tables.execute(statement)


def _to_6(tables: sqlite_utils.Database) -> None:
    """Version 6 remembers whether a model's chat template could be read; of earlier rows it is taken to be so.

    Version 3 knew no digests and no capabilities: nobody has looked into the files of its rows.
    """
    if "template_readable" not in tables["models"].columns_dict:
        for statement in V6:
            tables.execute(statement)
        tables.execute("UPDATE models SET template_readable = 0 WHERE digest = ''")


def _to_7(tables: sqlite_utils.Database) -> None:
    """Version 7 knows overlays of rows."""
    if "overlay" not in tables["models"].columns_dict:
        for statement in V7:
            tables.execute(statement)


def _to_8(tables: sqlite_utils.Database) -> None:
    """Version 8 remembers the engine builds that models were moved to."""
    for statement in V8:
        tables.execute(statement)


def _to_9(tables: sqlite_utils.Database) -> None:
    """Version 9 knows diffusion models, which are sets of files."""
    if "components" not in tables["models"].columns_dict:
        for statement in V9:
            tables.execute(statement)


_STEPS: tuple[tuple[int, Callable[[sqlite_utils.Database], None]], ...] = (
    (4, _to_4),
    (5, _to_5),
    (6, _to_6),
    (7, _to_7),
    (8, _to_8),
    (9, _to_9),
)

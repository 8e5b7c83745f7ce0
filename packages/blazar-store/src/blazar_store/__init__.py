"""Blazar's persistent state: directories, config.toml, SQLite rows and the data directory's lock.

Here are the types and errors that neighbours may hold. What reads and writes lives in the modules:
``directories`` and ``layout`` (where things are), ``settings_files``, ``settings_watch``, ``config_file`` and
``settings_words`` (``config.toml``), ``store`` and ``writer`` (rows), ``names`` (which row a name means), ``lock``.
"""

from blazar_store.errors import (
    ConfigInvalid,
    ConfigProblem,
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseTooNew,
    DataDirInUse,
    DiskFull,
    NameReserved,
    NameTaken,
    NoSuchEngine,
    NoSuchModel,
    NotWritable,
    StorageFailed,
    StoreError,
)
from blazar_store.types import EngineRow, ModelRow, RowOverlay, UsageRow

__all__ = [
    "ConfigInvalid",
    "ConfigProblem",
    "DataDirInUse",
    "DatabaseBusy",
    "DatabaseDamaged",
    "DatabaseTooNew",
    "DiskFull",
    "EngineRow",
    "ModelRow",
    "NameReserved",
    "NameTaken",
    "NoSuchEngine",
    "NoSuchModel",
    "NotWritable",
    "RowOverlay",
    "StorageFailed",
    "StoreError",
    "UsageRow",
]

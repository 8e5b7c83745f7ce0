"""Directories, configuration and database."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from blazar_cli.doctor.finding import Finding, bad, ok, warn
from blazar_cli.output import GIB, human_bytes
from blazar_cli.own_settings import own_settings
from blazar_store.directories import Directories
from blazar_store.errors import ConfigInvalid, StoreError
from blazar_store.layout import Layout
from blazar_store.store import Snapshot, Store

_LITTLE_ROOM_BYTES = GIB


def check_directories(directories: Directories, layout: Layout) -> Iterator[Finding]:
    """Look at where things are kept."""
    if directories.fallback is not None:
        yield warn("directories", "the current directory stands in", directories.fallback.removeprefix("WARNING: "))
    yield _writable("data directory", layout.data_dir)
    yield from _private(layout.run_dir)
    yield from _room(layout.data_dir)


def _writable(what: str, path: Path) -> Finding:
    existing = next(place for place in (path, *path.parents) if place.exists())
    if not existing.is_dir():
        return bad(what, f"{existing} is not a directory", "Move that file away, or set BLAZAR_DATA_DIR.")
    if not os.access(existing, os.W_OK | os.X_OK):
        return bad(what, f"{existing} cannot be written", f"Correct its owner: `sudo chown -R $USER {existing}`.")
    return ok(what, str(path) if existing == path else f"{path} (made when first needed)")


def _private(path: Path) -> Iterator[Finding]:
    if not path.is_dir():
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        found = f"{path} is open to others (mode {mode:04o})"
        yield bad("run directory", found, f"It holds the keys of running engines: `chmod 700 {path}`.")
    else:
        yield ok("run directory", f"{path}, private")


def _room(path: Path) -> Iterator[Finding]:
    existing = next(place for place in (path, *path.parents) if place.exists())
    free = shutil.disk_usage(existing).free
    if free < _LITTLE_ROOM_BYTES:
        yield warn("disk", f"{human_bytes(free)} free", "Free some space; logs and downloads need it.")
    else:
        yield ok("disk", f"{human_bytes(free)} free")


def check_config(directories: Directories) -> Finding:
    """Look at the configuration file."""
    file = directories.config_file
    try:
        own_settings(file)
    except ConfigInvalid as error:
        return bad("configuration", str(error), "Correct the file; `blazar config check` looks again.")
    return ok("configuration", f"{file}, valid" if file.is_file() else f"{file} does not exist; the defaults hold")


def check_store(layout: Layout) -> tuple[Finding, Snapshot | None]:
    """Look at the database, and return its rows if it can be read."""
    if not layout.database.exists():
        return ok("database", f"{layout.database} (made when first needed)"), None
    try:
        with Store(layout) as store:
            store.check()
            return ok("database", f"{layout.database}, sound"), store.snapshot()
    except StoreError as error:
        return bad("database", "it cannot be used", str(error)), None

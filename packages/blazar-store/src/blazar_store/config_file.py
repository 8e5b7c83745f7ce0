"""Changing ``config.toml`` for the user without spoiling it: comments and order stay, and no change is half made.

The old content is kept as ``config.toml.bak``; the new one is checked before it is written and read back after,
and if that fails the old one is put back.
"""

import contextlib
import os
import time
from collections.abc import Callable, Iterator, MutableMapping
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from blazar_store.errors import ConfigInvalid, ConfigProblem, StorageFailed
from blazar_store.files import make_directory, typed_os_errors, write_whole
from blazar_store.flock import try_lock
from blazar_store.settings_fields import Settings
from blazar_store.settings_files import load_settings, parse_settings, read_config

_PATIENCE_S = 10.0


class ConfigFile:
    """A configuration file that may be edited; it need not exist yet. Every method blocks.

    Attributes:
        path: The file itself: where a symbolic link stands for it, what that points to, so that the link stays.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(os.path.realpath(path))

    @property
    def backup(self) -> Path:
        """The content before the last edit."""
        return self.path.with_name(f"{self.path.name}.bak")

    def set(self, keys: tuple[str, ...], value: object) -> Settings:
        """Set one value, for example ``("models", "qwen", "ctx")`` to 8192; tables are created as needed.

        Raises:
            ConfigInvalid: The result would not be valid; the file is as it was.
            StoreError: It cannot be written; the file is as it was.
        """
        return self.edit(lambda document: _set(document, keys, value))

    def unset(self, keys: tuple[str, ...]) -> Settings:
        """Remove one value or table, if it is there; errors as in :meth:`set`."""
        return self.edit(lambda document: _unset(document, keys))

    def edit(self, change: Callable[[tomlkit.TOMLDocument], None]) -> Settings:
        """Let ``change`` work on the document, then check and write it, and return what it says now.

        Two programs that edit at once take turns.

        Raises:
            ConfigInvalid: The file is not TOML, or the result would not be valid; the file is as it was.
            StoreError: It cannot be written; the file is as it was.
        """
        make_directory(self.path.parent, mode=0o700)
        with self._turn():
            old = read_config(self.path)
            document = _parse(old, self.path)
            change(document)
            new = tomlkit.dumps(document)
            wanted = parse_settings(new, path=self.path)
            if new == old:
                return wanted
            self._replace(old, new, wanted)
            return wanted

    def _replace(self, old: str, new: str, wanted: Settings) -> None:
        existed = self.path.exists()
        if existed:
            write_whole(self.backup, old.encode(), mode=self.path.stat().st_mode & 0o777)
        write_whole(self.path, new.encode())
        try:
            intact = load_settings(self.path) == wanted
        except ConfigInvalid:
            intact = False
        if not intact:
            if existed:
                write_whole(self.path, old.encode())
            else:
                self.path.unlink(missing_ok=True)
            raise StorageFailed(path=self.path, reason="what was written did not read back; the old content is back")

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the lock beside the file; the file itself is replaced, so a lock on it would lock nothing."""
        lock = self.path.with_name(f".{self.path.name}.lock")
        with typed_os_errors(lock):
            handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + _PATIENCE_S
            while not try_lock(handle):
                if time.monotonic() >= deadline:
                    raise StorageFailed(path=self.path, reason=f"another program edits it (it holds {lock})")
                time.sleep(0.02)
            yield
        finally:
            os.close(handle)


def _parse(text: str, path: Path) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text)
    except TOMLKitError as error:
        raise ConfigInvalid(path=path, problems=(ConfigProblem(f"this is not valid TOML: {error}"),)) from error


def _set(document: tomlkit.TOMLDocument, keys: tuple[str, ...], value: object) -> None:
    here: MutableMapping[str, Any] = document
    for depth, key in enumerate(keys[:-1]):
        if key not in here:
            # [models] itself holds nothing but tables: its header need not be written.
            here[key] = tomlkit.table(is_super_table=depth < len(keys) - 2)
        here = here[key]
    here[keys[-1]] = list(value) if isinstance(value, tuple) else value


def _unset(document: tomlkit.TOMLDocument, keys: tuple[str, ...]) -> None:
    here: Any = document
    for key in keys[:-1]:
        if key not in here:
            return
        here = here[key]
    if keys[-1] in here:
        del here[keys[-1]]

"""Noticing that ``config.toml`` has changed while a daemon runs, without threads: the daemon asks now and then."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from blazar_store.errors import ConfigInvalid
from blazar_store.settings_fields import Settings
from blazar_store.settings_files import parse_settings, read_config
from blazar_store.settings_words import needs_restart

_FLUX_NS = 2_000_000_000
"""The coarsest time stamps in use (FAT) tick every two seconds."""


@dataclass(frozen=True, slots=True)
class FileStamp:
    """What tells one state of a file from the next without reading it."""

    modified_ns: int
    changed_ns: int
    size_bytes: int
    inode: int


def file_stamp(path: Path) -> FileStamp | None:
    """Return the file's stamp, or ``None`` when there is no file or it cannot be looked at."""
    try:
        status = path.stat()
    except OSError:
        return None
    return FileStamp(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def changed(path: Path, last_seen: FileStamp | None) -> bool:
    """Return whether the file is another than when ``last_seen`` was taken; appearing and vanishing count."""
    return file_stamp(path) != last_seen


@dataclass(frozen=True, slots=True)
class Reload:
    """An edit that was accepted.

    Attributes:
        settings: What holds now.
        changed: The top-level names whose values differ.
        needs_restart: Those of them that take effect at the next start only.
    """

    settings: Settings
    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


class SettingsWatch:
    """The settings a daemon runs with, and the file they came from.

    Attributes:
        path: The file.
        settings: What holds: the last content that was valid.
        error: Why the file's present content is not used, or ``None``.
    """

    def __init__(self, path: Path, *, below: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Read the file.

        Args:
            path: It need not exist.
            below: Settings from elsewhere, which hold where the file does not say otherwise.

        Raises:
            ConfigInvalid: There is nothing valid to start with.
        """
        self.path = path
        self.error: ConfigInvalid | None = None
        self._remember_stamp(file_stamp(path))
        self._text = read_config(path)
        self._below = below
        self.settings = parse_settings(self._text, path=path, below=below)
        self._empty_before = False

    def poll(self, *, force: bool = False) -> Reload | ConfigInvalid | None:
        """Read the file again if it has changed.

        An invalid edit keeps what holds, and is reported once; it stays in :attr:`error` until the file is valid
        again. Reads a small file; call it from a thread that may block.

        Args:
            force: Read and report even if nothing seems to have changed (SIGHUP).

        Returns:
            The accepted edit, the error of a refused one, or ``None`` when there is nothing to say.
        """
        stamp = file_stamp(self.path)
        if stamp == self._stamp and not self._in_flux and not force:
            return None
        try:
            text = read_config(self.path)
            if self._seems_half_saved(text) and not force:
                return None
            self._remember_stamp(stamp)
            if text == self._text and not force:
                return None
            self._text = text
            settings = parse_settings(text, path=self.path, below=self._below)
        except ConfigInvalid as error:
            known, self.error = self.error, error
            return None if str(known) == str(error) and not force else error
        return self._accept(settings, force=force)

    def _accept(self, settings: Settings, *, force: bool) -> Reload | None:
        repaired, self.error = self.error is not None, None
        differing = tuple(
            name for name in Settings.model_fields if getattr(self.settings, name) != getattr(settings, name)
        )
        self.settings = settings
        if not differing and not repaired and not force:
            return None
        return Reload(settings, differing, tuple(name for name in differing if needs_restart(name)))

    def _remember_stamp(self, stamp: FileStamp | None) -> None:
        self._stamp = stamp
        # Time stamps are coarse: a second edit in the same tick changes nothing in them. So a file that was just
        # written is read again until it has aged.
        self._in_flux = stamp is not None and time.time_ns() - stamp.modified_ns < _FLUX_NS

    def _seems_half_saved(self, text: str) -> bool:
        """Return whether the file is empty or gone for the first time: some editors do that for a moment."""
        empty = not text and bool(self._text)
        seems, self._empty_before = empty and not self._empty_before, empty
        return seems

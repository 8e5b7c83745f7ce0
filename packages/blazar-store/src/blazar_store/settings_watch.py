"""Noticing that ``config.toml`` has changed while a daemon runs, without threads: the daemon asks now and then."""

from dataclasses import dataclass
from pathlib import Path

from blazar_store.errors import ConfigInvalid
from blazar_store.settings_fields import Settings
from blazar_store.settings_files import load_settings
from blazar_store.settings_words import needs_restart


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

    def __init__(self, path: Path) -> None:
        """Read the file.

        Raises:
            ConfigInvalid: There is nothing valid to start with.
        """
        self.path = path
        self._stamp = file_stamp(path)
        self.settings = load_settings(path)
        self.error: ConfigInvalid | None = None
        self._absent_once = False

    def poll(self, *, force: bool = False) -> Reload | ConfigInvalid | None:
        """Read the file again if it has changed.

        An invalid edit keeps what holds, and is reported once; it stays in :attr:`error` until the file is valid
        again. Reads a small file; call it from a thread that may block.

        Args:
            force: Read even if nothing seems to have changed (SIGHUP).

        Returns:
            The accepted edit, the error of a refused one, or ``None`` when there is nothing to say.
        """
        stamp = file_stamp(self.path)
        if stamp == self._stamp and not force:
            self._absent_once = False
            return None
        # Some editors remove or empty the file for a moment: only what is still so at the next poll is meant.
        absent = stamp is None or stamp.size_bytes == 0
        if absent and not self._absent_once and not force:
            self._absent_once = True
            return None
        self._absent_once = False
        self._stamp = stamp
        try:
            settings = load_settings(self.path)
        except ConfigInvalid as error:
            self.error = error
            return error
        repaired, self.error = self.error is not None, None
        differing = _differing(self.settings, settings)
        self.settings = settings
        if not differing and not repaired and not force:
            return None
        return Reload(settings, differing, tuple(name for name in differing if needs_restart(name)))


def _differing(old: Settings, new: Settings) -> tuple[str, ...]:
    return tuple(name for name in Settings.model_fields if getattr(old, name) != getattr(new, name))

"""Where configuration, data and cache live on this machine.

The XDG directories, under ``blazar/``, on Linux and macOS alike, so that one page of documentation is right for
both; on Windows, where only the library packages run, what the system says. Two variables override them:
``BLAZAR_DATA_DIR`` (the data directory itself) and ``BLAZAR_CONFIG`` (``config.toml``, or the directory it is in).
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_APP = "blazar"
CONFIG_FILE_NAME = "config.toml"
_EFFECTIVE = os.access in os.supports_effective_ids


@dataclass(frozen=True, slots=True)
class Directories:
    """The places Blazar uses. None of them needs to exist yet.

    Attributes:
        config_dir: Holds the configuration file.
        data_dir: Engines, models, database, logs and run files; :class:`blazar_store.layout.Layout` divides it.
        cache_dir: What can be fetched again.
        config_file: The configuration file.
        fallback: A warning for stderr when a place was not available and the current directory took its turn,
            else ``None``. Whoever calls prints it before anything else.
    """

    config_dir: Path
    data_dir: Path
    cache_dir: Path
    config_file: Path
    fallback: str | None


@dataclass(frozen=True, slots=True)
class _Place:
    """One of the directories: what it is for, the variable that moves it, its default under the home directory."""

    purpose: str
    variable: str
    default: tuple[str, ...]


_CONFIG = _Place("configuration", "XDG_CONFIG_HOME", (".config",))
_DATA = _Place("data", "XDG_DATA_HOME", (".local", "share"))
_CACHE = _Place("cache", "XDG_CACHE_HOME", (".cache",))


def find_directories(env: Mapping[str, str], *, platform: str, cwd: Path) -> Directories:
    """Return the directories for this environment.

    A place is unavailable when nothing says where it is (no ``HOME``, no XDG variable) or when it does not exist
    and cannot be created; then ``cwd`` stands in, loudly. A directory that exists but cannot be written is not
    replaced, because what is in it would seem lost; neither is a configuration directory that nobody needs to
    write. What ``BLAZAR_DATA_DIR`` and ``BLAZAR_CONFIG`` name is never replaced.

    Args:
        env: The process environment.
        platform: As in ``sys.platform``.
        cwd: The current directory, absolute.
    """
    troubles: list[str] = []

    def find(place: _Place, *, needs_writing: bool) -> Path:
        path, trouble = _locate(place, env, platform)
        if path is not None and (needs_writing or not path.parent.is_dir()):
            trouble = _why_uncreatable(path)
        if path is not None and trouble is None:
            return path
        troubles.append(f"{place.purpose} ({trouble})")
        return cwd / _APP

    config_file = _config_override(env, cwd)
    if config_file is None:
        config_file = find(_CONFIG, needs_writing=False) / CONFIG_FILE_NAME
    data_override = env.get("BLAZAR_DATA_DIR", "")
    data_dir = _anchored(data_override, env, cwd) if data_override else find(_DATA, needs_writing=True)
    cache_dir = find(_CACHE, needs_writing=True)
    if cache_dir == cwd / _APP:
        cache_dir /= "cache"  # data may have fallen back to the same directory
    return Directories(
        config_dir=config_file.parent,
        data_dir=data_dir,
        cache_dir=cache_dir,
        config_file=config_file,
        fallback=_warning(troubles, cwd) if troubles else None,
    )


def _locate(place: _Place, env: Mapping[str, str], platform: str) -> tuple[Path | None, str | None]:
    """Return where the place is, or why that is not known."""
    given = env.get(place.variable, "")
    if given and Path(given).is_absolute():  # the XDG specification: relative paths are to be ignored
        return Path(given, _APP), None
    if platform == "win32":
        # Here, not above: elsewhere nobody needs it, and every command waits for what is imported.
        import platformdirs.windows

        windows = platformdirs.windows.Windows(_APP, appauthor=False)
        return Path(windows.user_cache_dir if place is _CACHE else windows.user_data_dir), None
    home = env.get("HOME", "")
    if home and Path(home).is_absolute():
        return Path(home, *place.default, _APP), None
    return None, f"neither {place.variable} nor HOME is set"


def _why_uncreatable(path: Path) -> str | None:
    """Return why ``path`` is not and cannot become a directory, or ``None`` when it can."""
    for candidate in (path, *path.parents):
        if os.path.lexists(candidate):
            if not candidate.is_dir():
                return f"{candidate} is not a directory"
            if candidate == path or os.access(candidate, os.W_OK | os.X_OK, effective_ids=_EFFECTIVE):
                return None
            return f"{path} cannot be created: no permission in {candidate}"
    return f"{path} cannot be created"


def _config_override(env: Mapping[str, str], cwd: Path) -> Path | None:
    given = env.get("BLAZAR_CONFIG", "")
    if not given:
        return None
    path = _anchored(given, env, cwd)
    return path / CONFIG_FILE_NAME if path.is_dir() else path


def _anchored(given: str, env: Mapping[str, str], cwd: Path) -> Path:
    """Return ``given`` as an absolute path; ``~`` means the ``HOME`` of ``env``."""
    home = env.get("HOME", "")
    if home and (given == "~" or given.startswith("~/")):
        return Path(home, given[2:])
    return cwd / given


def _warning(troubles: list[str], cwd: Path) -> str:
    return (
        f"WARNING: no usable directory for {'; '.join(troubles)}. "
        f"Using {cwd / _APP} in the current directory instead: a start from elsewhere will not find it. "
        "Set HOME, the XDG variables or BLAZAR_DATA_DIR and BLAZAR_CONFIG to choose a lasting place."
    )

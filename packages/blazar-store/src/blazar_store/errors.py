"""What can go wrong with what Blazar remembers.

::

    StoreError
    ├── ConfigInvalid        config-invalid        config.toml says something that cannot be used
    ├── DataDirInUse         data-dir-in-use       another daemon owns the data directory
    ├── NameReserved         name-reserved         a name that Blazar or the file system needs for itself
    ├── NameTaken            name-taken            a row of that name exists
    ├── NoSuchModel          no-such-model
    ├── NoSuchEngine         no-such-engine
    ├── DatabaseTooNew       database-too-new      written by a later Blazar
    ├── DatabaseDamaged      database-damaged      not a database, or a broken one
    ├── DatabaseBusy         database-busy         another process holds the write lock for too long
    ├── DiskFull             disk-full
    ├── NotWritable          not-writable          permissions, a read-only file system
    └── StorageFailed        storage-failed        any other refusal of the operating system

The tree stands alone: this package is useful without the rest of Blazar. ``str(error)`` is the text that people
see; ``code`` is the stable name by which other programs know the situation.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


class StoreError(Exception):
    """One situation in which the store refuses or fails, and what to do about it.

    Attributes:
        code: The situation's stable, kebab-case name.
    """

    code: ClassVar[str] = "store-error"


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong in a configuration file.

    Attributes:
        message: A sentence that says what is wrong and what would be right.
        key: The setting, ``models."name".ctx``, or ``None`` where the file as a whole is meant.
        line: Counted from 1, or ``None`` where no line can be named.
        column: Counted from 1, or ``None``; given for broken TOML only.
    """

    message: str
    key: str | None = None
    line: int | None = None
    column: int | None = None


class ConfigInvalid(StoreError):
    """The configuration file cannot be used; all its problems at once."""

    code = "config-invalid"

    def __init__(self, *, path: Path, problems: tuple[ConfigProblem, ...]) -> None:
        self.path = path
        self.problems = problems
        super().__init__("\n".join(self._line(problem) for problem in problems))

    def _line(self, problem: ConfigProblem) -> str:
        place = ":".join(str(part) for part in (self.path, problem.line, problem.column) if part is not None)
        return f"{place}: {problem.message}"


class DataDirInUse(StoreError):
    """Another daemon owns the data directory; two would corrupt each other's work."""

    code = "data-dir-in-use"

    def __init__(self, *, data_dir: Path, pid: int | None, since: str | None, address: str | None) -> None:
        self.data_dir = data_dir
        self.pid = pid
        self.since = since
        self.address = address
        owner = "another Blazar daemon" if pid is None else f"the Blazar daemon with pid {pid}"
        started = "" if since is None else f", running since {since}"
        listening = "" if address is None else f", listening on {address}"
        stop = "stop that one" if pid is None else f"stop that one (`kill {pid}`)"
        super().__init__(
            f"the data directory {data_dir} is in use by {owner}{started}{listening}. "
            f"Use the daemon that runs already, {stop}, "
            "or start this one with another directory in BLAZAR_DATA_DIR."
        )


class NameReserved(StoreError):
    """A name that cannot be given to a row."""

    code = "name-reserved"

    def __init__(self, *, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"{_shown(name)} cannot be used as a name: {reason}. Choose another name, such as my-model.")


class NameTaken(StoreError):
    """A row of this name exists, or an alias in the settings."""

    code = "name-taken"

    def __init__(self, *, what: str, name: str, existing: str, alias_of: str = "") -> None:
        self.what = what
        self.name = name
        self.existing = existing
        self.alias_of = alias_of
        if alias_of:
            super().__init__(
                f"the {what} name '{name}' is taken already: '{existing}' is an alias of '{alias_of}'. Choose another "
                f'name, or take the alias out of [models."{alias_of}"] in config.toml.'
            )
            return
        clash = "is taken already" if existing == name else f"differs only in {_what_differs(name, existing)}"
        remedy = (
            "Choose another name, or remove the old row with `blazar models rm`."
            if what == "model"
            else "Remove the old one first with `blazar engine rm`."
        )
        super().__init__(f"the {what} name '{name}' {clash}. {remedy}")


def _what_differs(name: str, existing: str) -> str:
    tags = [one for one in (name, existing) if one.casefold().endswith(":latest")]
    if len(tags) == 1:
        return f"':latest' from the existing '{existing}', and Ollama's clients take the two for one model"
    return f"spelling from the existing '{existing}'"


class NoSuchModel(StoreError):
    """There is no row for this model."""

    code = "no-such-model"

    def __init__(self, *, name: str, near: tuple[str, ...] = ()) -> None:
        self.name = name
        self.near = near
        hint = f" Did you mean {_either(near)}?" if near else ""
        super().__init__(f"there is no model {_shown(name)}.{hint} `blazar models list` shows those there are.")


class NoSuchEngine(StoreError):
    """There is no engine build with this tag."""

    code = "no-such-engine"

    def __init__(self, *, tag: str, tags: tuple[str, ...] = ()) -> None:
        self.tag = tag
        self.tags = tags
        known = f"The registered ones are {', '.join(tags)}." if tags else "None is registered."
        super().__init__(f"there is no engine {_shown(tag)}. {known} `blazar engine list` shows them.")


class DatabaseTooNew(StoreError):
    """The database was written by a later Blazar than this one."""

    code = "database-too-new"

    def __init__(self, *, path: Path, found: int, known: int) -> None:
        self.path = path
        self.found = found
        self.known = known
        super().__init__(
            f"the database {path} has schema version {found}, and this Blazar knows versions up to {known}: "
            "a newer Blazar wrote it. Upgrade this one, or point BLAZAR_DATA_DIR at another directory; "
            "nothing was changed."
        )


class DatabaseDamaged(StoreError):
    """The file is not a database, or is a broken one."""

    code = "database-damaged"

    def __init__(self, *, path: Path, reason: str, backup: Path | None = None) -> None:
        self.path = path
        self.reason = reason
        self.backup = backup
        restore = (
            f"Stop the daemon and copy the backup {backup} over it"
            if backup is not None
            else f"Stop the daemon, move the file aside (`mv {path} {path}.damaged`)"
        )
        super().__init__(
            f"the database {path} is damaged: {reason}. {restore}; "
            "model weights are not in it and are safe, `blazar models add` and `blazar engine add-local` "
            "register them again."
        )


class DatabaseBusy(StoreError):
    """Another process held the write lock for longer than the store waits."""

    code = "database-busy"

    def __init__(self, *, path: Path, waited_s: float) -> None:
        self.path = path
        self.waited_s = waited_s
        super().__init__(
            f"the database {path} stayed locked by another process for {waited_s:.0f} s; nothing was changed. "
            f"Try again; `fuser {path}` names the process if it does not let go."
        )


class DiskFull(StoreError):
    """There is no room to write."""

    code = "disk-full"

    def __init__(self, *, path: Path) -> None:
        self.path = path
        super().__init__(
            f"the disk that holds {path} is full (or a quota or size limit is reached); "
            "nothing was changed. Free some space and try again."
        )


class NotWritable(StoreError):
    """Permissions or a read-only file system forbid the write."""

    code = "not-writable"

    def __init__(self, *, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"{path} cannot be written: {reason}. Nothing was changed. "
            "Correct the permissions, or name another place with BLAZAR_DATA_DIR (data) or BLAZAR_CONFIG (config.toml)."
        )


class StorageFailed(StoreError):
    """The operating system refused a read or write for any other reason."""

    code = "storage-failed"

    def __init__(self, *, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(
            f"{path} cannot be used: {reason}. Nothing was changed. Check the disk and the path, then try again."
        )


def _shown(name: str) -> str:
    """Return ``name`` quoted, its control characters visible, cut where it is very long."""
    visible = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in name)
    return f"'{visible}'" if len(visible) <= 120 else f"'{visible[:117]}...'"


def _either(names: tuple[str, ...]) -> str:
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"

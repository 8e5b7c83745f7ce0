"""Engine rows: which builds are registered, and which one of a kind is active.

Whatever happens, a kind that has rows has exactly one active row: each change happens in one transaction, the
index ``engines_active`` forbids a second one, and the daemon's start heals what something else has written.
"""

import unicodedata
from dataclasses import replace
from pathlib import Path, PurePosixPath

from blazar_store.database import Database
from blazar_store.errors import NameReserved, NameTaken, NoSuchEngine
from blazar_store.layout import Layout
from blazar_store.rows import (
    ENGINE_COLUMNS,
    engine_row,
    engine_values,
    path_value,
    relativize_server_path,
    value_path,
)
from blazar_store.types import EngineRow

_COLUMNS = ", ".join(f'"{column}"' for column in ENGINE_COLUMNS)
_INSERT = f"INSERT INTO engines ({_COLUMNS}) VALUES ({', '.join('?' * len(ENGINE_COLUMNS))})"


class EngineRows:
    """The engine rows of a database. Every method is one transaction; errors as in ``ModelRows``."""

    _database: Database
    _layout: Layout

    def add_engine(self, row: EngineRow) -> EngineRow:
        """Add a build and return its row as stored.

        The first build of its kind becomes active whatever ``row.active`` says; a later one only if it says so,
        and then the former one steps back.

        Raises:
            NameTaken: There is a row with that tag.
            NameReserved: The tag cannot name a directory.
        """
        check_engine_tag(row.tag)
        with self._database.write():
            return self._insert_engine(row)

    def add_local_engine(self, row: EngineRow) -> EngineRow:
        """Add a user's own binary under a tag of its own (``local``, ``local-2``, …) and return its row.

        A binary that is registered already keeps its row, tag and place; what was probed anew (kind, version,
        commit) replaces what was known.

        Args:
            row: The build; its ``tag`` and ``local`` are not looked at.
        """
        with self._database.write():
            rows = self._engines()
            for known in rows:
                if known.local and known.server_path == row.server_path and known.kind == row.kind:
                    self._database.connection.execute(
                        'UPDATE engines SET version = ?, "commit" = ?, installed_at = ? WHERE tag = ?',
                        (row.version, row.commit, row.installed_at, known.tag),
                    )
                    return self._require_engine(known.tag)
            return self._insert_engine(replace(row, tag=_free_local_tag({known.tag for known in rows}), local=True))

    def _insert_engine(self, row: EngineRow) -> EngineRow:
        if any(known.tag == row.tag for known in self._engines()):
            raise NameTaken(what="engine", name=row.tag, existing=row.tag)
        values = engine_values(replace(row, active=False), data_dir=self._layout.data_dir)
        self._database.connection.execute(_INSERT, values)
        if row.active or self._active(row.kind) is None:
            self._activate(row.kind, row.tag)
        return self._require_engine(row.tag)

    def set_active_engine(self, tag: str) -> EngineRow:
        """Make ``tag`` the build of its kind that new loads use, and return its row.

        Raises:
            NoSuchEngine: There is no such row; the active one stays active.
        """
        with self._database.write():
            row = self._require_engine(tag)
            self._activate(row.kind, tag)
            return self._require_engine(tag)

    def remove_engine(self, tag: str) -> EngineRow:
        """Remove the row and return what it was; files are not touched.

        If it was active, the newest remaining build of its kind takes over, within the same transaction.

        Raises:
            NoSuchEngine: There is no such row.
        """
        with self._database.write():
            row = self._require_engine(tag)
            self._database.connection.execute("DELETE FROM engines WHERE tag = ?", (tag,))
            self._activate_somebody(row.kind)
            return row

    def list_engines(self) -> tuple[EngineRow, ...]:
        """Return every build: by kind, the active one of each kind first, then the newest."""
        with self._database.typed_errors():
            return self._engines()

    def find_engine(self, tag: str) -> EngineRow | None:
        """Return the build ``tag``, or ``None``."""
        return next((row for row in self.list_engines() if row.tag == tag), None)

    def active_engine(self, kind: str) -> EngineRow | None:
        """Return the active build of ``kind``, or ``None`` when none of that kind is registered."""
        return self._active(kind)

    def heal_active_engines(self) -> tuple[str, ...]:
        """Give every kind that has rows, but no active one, an active one; return the tags chosen."""
        with self._database.write():
            kinds = sorted({row.kind for row in self._engines()})
            return tuple(tag for kind in kinds if (tag := self._activate_somebody(kind)) is not None)

    def heal_engine_paths(self) -> tuple[str, ...]:
        """Store in-tree paths relative, where an earlier version or a moved directory left absolute ones.

        The walk that every start of the daemon does. A path under another directory is taken for ours when it
        has the form ``…/engines/<tag>/…``, is gone there, and exists here; a user's own binary is left alone.

        Returns:
            The tags whose rows were changed.
        """
        healed: list[str] = []
        with self._database.write():
            for record in self._database.rows("SELECT tag, server_path, local FROM engines ORDER BY tag"):
                stored = value_path(record["server_path"])
                better = self._healed(stored, tag=record["tag"], local=bool(record["local"]))
                if better is not None:
                    self._database.connection.execute(
                        "UPDATE engines SET server_path = ? WHERE tag = ?", (better, record["tag"])
                    )
                    healed.append(record["tag"])
        return tuple(healed)

    def _healed(self, stored: Path, *, tag: str, local: bool) -> str | bytes | None:
        """Return the relative form that should be stored, or ``None`` when the stored one is right."""
        if not stored.is_absolute():
            return None
        relative = relativize_server_path(stored, data_dir=self._layout.data_dir)
        if relative != path_value(stored):
            return relative
        if local or stored.exists():
            return None
        directory = self._layout.engine_dir(tag).name
        parts = stored.parts
        for index in range(len(parts) - 2, 0, -1):
            if parts[index - 1] == "engines" and parts[index] == directory:
                inner = PurePosixPath("engines", *parts[index:])
                if ".." not in inner.parts and (self._layout.data_dir / inner).exists():
                    return path_value(Path(inner))
        return None

    def _engines(self) -> tuple[EngineRow, ...]:
        rows = self._database.rows("SELECT * FROM engines ORDER BY kind, active DESC, installed_at DESC, tag")
        return tuple(engine_row(row, data_dir=self._layout.data_dir) for row in rows)

    def _require_engine(self, tag: str) -> EngineRow:
        rows = self._engines()
        for row in rows:
            if row.tag == tag:
                return row
        raise NoSuchEngine(tag=tag, tags=tuple(row.tag for row in rows))

    def _active(self, kind: str) -> EngineRow | None:
        return next((row for row in self._engines() if row.kind == kind and row.active), None)

    def _activate(self, kind: str, tag: str) -> None:
        # Two statements, because the unique index is checked row by row; the transaction makes them one.
        self._database.connection.execute("UPDATE engines SET active = 0 WHERE kind = ? AND active = 1", (kind,))
        self._database.connection.execute("UPDATE engines SET active = 1 WHERE kind = ? AND tag = ?", (kind, tag))

    def _activate_somebody(self, kind: str) -> str | None:
        """Activate the newest build of ``kind`` if it has rows and none is active; return its tag."""
        rows = [row for row in self._engines() if row.kind == kind]
        if not rows or rows[0].active:
            return None
        self._activate(kind, rows[0].tag)
        return rows[0].tag


def check_engine_tag(tag: str) -> None:
    """Check that ``tag`` can name a build and its directory.

    Raises:
        NameReserved: It is empty, too long, or holds spaces, slashes or control characters.
    """
    if not tag or len(tag) > 100 or tag in {".", ".."}:
        raise NameReserved(name=tag, reason="an engine's tag has 1 to 100 characters and is not '.' or '..'")
    if any(char in "/\\#" or char.isspace() or unicodedata.category(char).startswith("C") for char in tag):
        raise NameReserved(name=tag, reason="an engine's tag has no spaces, slashes, '#' or control characters")


def _free_local_tag(taken: set[str]) -> str:
    number = 1
    while (tag := "local" if number == 1 else f"local-{number}") in taken:
        number += 1
    return tag

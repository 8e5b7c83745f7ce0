"""Model rows: adding, finding, renaming and removing them."""

from collections.abc import Iterable

from blazar_store.database import Database
from blazar_store.errors import NameTaken, NoSuchModel
from blazar_store.names import NameTable, check_model_name, form_of_name, near_names
from blazar_store.rows import MODEL_COLUMNS, model_row, model_values
from blazar_store.types import ModelRow

_INSERT = f"INSERT INTO models ({', '.join(MODEL_COLUMNS)}) VALUES ({', '.join('?' * len(MODEL_COLUMNS))})"
_UPDATE = f"UPDATE models SET {', '.join(f'{column} = ?' for column in MODEL_COLUMNS)} WHERE name = ?"


class ModelRows:
    """The model rows of a database. Every method is one transaction.

    All of them raise the :class:`~blazar_store.errors.StoreError` that says so when the disk is full or the
    database cannot be read or written; nothing is half done then.
    """

    _database: Database

    def add_model(self, row: ModelRow) -> None:
        """Add a row.

        Raises:
            NameReserved: The name holds a reserved mark.
            NameTaken: There is a row of that name, or of one that differs in case or ``:latest`` only.
        """
        check_model_name(row.name)
        with self._database.write():
            self._require_free_name(row.name)
            self._database.connection.execute(_INSERT, model_values(row))

    def replace_model(self, row: ModelRow) -> None:
        """Replace the row of the same name, for example after its file has changed.

        Raises:
            NoSuchModel: There is none.
        """
        with self._database.write():
            self._require_model(row.name)
            self._database.connection.execute(_UPDATE, (*model_values(row), row.name))

    def rename_model(self, name: str, new_name: str) -> ModelRow:
        """Give a row another name; the files stay where they are.

        Raises:
            NoSuchModel: There is no row ``name``.
            NameReserved: The new name holds a reserved mark.
            NameTaken: Another row has the new name.
        """
        check_model_name(new_name)
        with self._database.write():
            self._require_model(name)
            self._require_free_name(new_name, apart_from=name)
            self._database.connection.execute("UPDATE models SET name = ? WHERE name = ?", (new_name, name))
            return self._require_model(new_name)

    def remove_model(self, name: str) -> ModelRow:
        """Remove exactly the row ``name`` and return what it was. Files are not touched.

        Raises:
            NoSuchModel: There is none.
        """
        with self._database.write():
            row = self._require_model(name)
            self._database.connection.execute("DELETE FROM models WHERE name = ?", (name,))
            return row

    def get_model(self, name: str) -> ModelRow:
        """Return the row ``name``, literally.

        Raises:
            NoSuchModel: There is none; the error suggests similar names.
        """
        with self._database.read():
            return self._require_model(name)

    def find_model(self, name: str) -> ModelRow | None:
        """Return the row that ``name`` means by the rules of ``resolve_model_name``, or ``None``."""
        return ModelIndex(self.list_models()).find(name)

    def list_models(self) -> tuple[ModelRow, ...]:
        """Return every row, the newest first."""
        rows = self._database.rows("SELECT * FROM models ORDER BY added_at DESC, name")
        return tuple(model_row(row) for row in rows)

    def _require_model(self, name: str) -> ModelRow:
        rows = self._database.rows("SELECT * FROM models WHERE name = ?", (name,))
        if not rows:
            raise NoSuchModel(name=name, near=near_names(name, self._model_names()))
        return model_row(rows[0])

    def _require_free_name(self, name: str, *, apart_from: str | None = None) -> None:
        asked = form_of_name(name)
        for existing in self._model_names():
            if existing != apart_from and form_of_name(existing) == asked:
                raise NameTaken(what="model", name=name, existing=existing)

    def _model_names(self) -> list[str]:
        return [row["name"] for row in self._database.rows("SELECT name FROM models ORDER BY name")]


class ModelIndex:
    """The model rows at one moment, for answers from memory.

    Attributes:
        rows: Every row, the newest first.
    """

    def __init__(self, rows: Iterable[ModelRow]) -> None:
        self.rows: tuple[ModelRow, ...] = tuple(rows)
        self._by_name = {row.name: row for row in self.rows}
        self._names = NameTable(self._by_name)

    def resolve(self, name: str) -> str:
        """Return the name of the row that ``name`` means, or ``name`` verbatim."""
        return self._names.resolve(name)

    def find(self, name: str) -> ModelRow | None:
        """Return the row that ``name`` means, or ``None``."""
        return self._by_name.get(self.resolve(name))

    def near(self, name: str) -> tuple[str, ...]:
        """Return up to three names that resemble ``name``."""
        return near_names(name, self._by_name)

"""Deleting a model's files, where nobody else needs them."""

from collections.abc import Sequence
from pathlib import Path

from blazar_store.types import ModelRow


def delete_weights(row: ModelRow, others: Sequence[ModelRow]) -> bool:
    """Delete the files of a row that has been removed; return whether its weights are gone.

    Files that another row uses stay, a projector that several variants share too. A directory that becomes empty
    goes with them, and the one above it.
    """
    needed = {path for other in others for path in files_of(other)}
    for path in files_of(row):
        if path not in needed:
            path.unlink(missing_ok=True)
            if row.pulled:
                _remove_empty(path.parent)
    return not any(path.exists() for path in row.shards)


def files_of(row: ModelRow) -> tuple[Path, ...]:
    """Return every file of a row, its projector included."""
    return row.shards if row.mmproj_path is None else (*row.shards, row.mmproj_path)


def _remove_empty(directory: Path) -> None:
    for folder in (directory, directory.parent):
        try:
            folder.rmdir()
        except OSError:
            # Something else is in it.
            return

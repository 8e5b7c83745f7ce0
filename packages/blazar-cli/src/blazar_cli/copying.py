"""A second name for a model, by hard links: no bytes, and each name can be removed without the other. Blocks."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from blazar_cli.weights import files_of
from blazar_routing.errors import ModelFileMissing, ModelNotFound
from blazar_store.errors import NameTaken
from blazar_store.layout import Layout, encode_name
from blazar_store.names import check_model_name, form_of_name, near_names
from blazar_store.store import Store
from blazar_store.types import ModelRow


@dataclass(frozen=True, slots=True)
class Copied:
    """What came of it.

    Attributes:
        row: The new row.
        shared: Why both rows use the very same files instead of links of their own, or ``""``.
    """

    row: ModelRow
    shared: str = ""


def copy_row(layout: Layout, source: str, destination: str) -> Copied:
    """Give a model a second name.

    Raises:
        ModelNotFound: There is no model ``source``.
        ModelFileMissing: Its files are gone.
        NameTaken: Another row has the name ``destination``.
        NameReserved: It cannot be a row's.
    """
    check_model_name(destination)
    with Store(layout) as store:
        rows = store.list_models()
        row = store.find_model(source)
        if row is None:
            raise ModelNotFound(model=source, near=near_names(source, [known.name for known in rows]))
        taken = next((known.name for known in rows if form_of_name(known.name) == form_of_name(destination)), None)
        if taken is not None:
            raise NameTaken(what="model", name=destination, existing=taken)
        missing = next((path for path in files_of(row) if not path.exists()), None)
        if missing is not None:
            raise ModelFileMissing(model=row.name, path=str(missing))
        alias = replace(row, name=destination, added_at=int(time.time()))
        directory = layout.models_dir / "aliases" / encode_name(destination)
        try:
            links = _link(row, directory)
        except OSError as error:
            _unlink(directory)
            store.add_model(alias)
            return Copied(alias, shared=(error.strerror or type(error).__name__).lower())
        try:
            store.add_model(_pointing_at(links, alias))
        except BaseException:
            _unlink(directory)
            raise
        return Copied(_pointing_at(links, alias))


def _link(row: ModelRow, directory: Path) -> Mapping[Path, Path]:
    """Link every file of a row into a directory; return the new path of each.

    Raises:
        OSError: The file system, or the owner of the files, does not allow it.
    """
    links = {path: directory / path.name for path in files_of(row)}
    if len(set(links.values())) != len(links):
        links = {path: directory / f"{number}" / path.name for number, path in enumerate(links)}
    for path, link in links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        # What is left of an alias of this name whose row is gone.
        link.unlink(missing_ok=True)
        # The bytes, not a link that somebody may point elsewhere.
        link.hardlink_to(path.resolve())
    return links


def _pointing_at(links: Mapping[Path, Path], row: ModelRow) -> ModelRow:
    # Links of ours may be deleted with their row: the other name keeps the bytes.
    return replace(
        row,
        # A directory is not linked; its files are, side by side.
        path=links[row.path] if row.path in links else links[row.shards[0]].parent,
        components=tuple((flag, links[path]) for flag, path in row.components),
        shards=tuple(links[path] for path in row.shards),
        mmproj_path=None if row.mmproj_path is None else links[row.mmproj_path],
        pulled=True,
    )


def _unlink(directory: Path) -> None:
    for path in sorted(directory.rglob("*"), reverse=True):
        if path.is_dir():
            path.rmdir()
        else:
            path.unlink()
    if directory.is_dir():
        directory.rmdir()

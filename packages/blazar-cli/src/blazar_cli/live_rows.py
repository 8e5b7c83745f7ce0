"""Model rows that are changed over HTTP: shown, copied, created, removed; and at once in the daemon that serves."""

import asyncio
import hashlib
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from blazar_cli.catalogue import LiveCatalogue
from blazar_cli.copying import copy_row
from blazar_cli.creating import create_row
from blazar_cli.errors import CliError
from blazar_cli.file_facts import file_facts
from blazar_cli.modelfile.recipe import Recipe, write_modelfile
from blazar_cli.uploads import Uploads
from blazar_cli.weights import delete_weights
from blazar_gateway.ports import ModelDetails, Overlay
from blazar_gguf import FileKind, GgufError, read_metadata_file
from blazar_routing.errors import InvalidRequest, LaneError, ModelNotFound
from blazar_store.errors import NameReserved, NameTaken, NoSuchModel, StoreError
from blazar_store.files import from_os_error
from blazar_store.layout import Layout, encode_name
from blazar_store.store import Store
from blazar_store.types import ModelRow

T = TypeVar("T")


class LiveRows:
    """The daemon's ``ModelRegistry``.

    Args:
        layout: Of the data directory.
        catalogue: The rows that are served.
        reload: Takes up the rows as they are now.
    """

    def __init__(self, layout: Layout, catalogue: LiveCatalogue, *, reload: Callable[[], Awaitable[None]]) -> None:
        self._layout = layout
        self._catalogue = catalogue
        self._reload = reload
        self._uploads = Uploads(layout.uploads_dir)

    async def details(self, name: str, *, verbose: bool) -> ModelDetails:
        """Return what the row and its files say.

        Raises:
            ModelNotFound: The row has gone meanwhile.
            ModelUnreadable: A file cannot be read.
        """
        row = self._catalogue.find_row(name)
        if row is None:
            raise ModelNotFound(model=name, near=self._catalogue.near(name))
        return await asyncio.to_thread(_details, row, verbose=verbose)

    async def delete(self, name: str) -> None:
        """Remove a row, and its files if they are Blazar's and nobody else's."""
        await self._change(lambda: _remove(self._layout, name))

    async def copy(self, source: str, destination: str) -> None:
        """Give a row a second name."""
        self._check_free(destination)
        await self._change(lambda: copy_row(self._layout, source, destination))

    async def create(self, overlay: Overlay) -> None:
        """Add an overlay row, or replace one of that name."""
        if overlay.quantize:
            raise InvalidRequest(
                "this server does not quantise over HTTP: make the file with llama.cpp's llama-quantize and create "
                "the model from that.",
                param="quantize",
            )
        self._check_free(overlay.name)
        await self._change(lambda: _create(self._layout, self._uploads, overlay))

    def has_blob(self, digest: str) -> bool:
        """Return whether a file with this digest was uploaded."""
        return self._uploads.has(digest)

    async def add_blob(self, digest: str, pieces: AsyncIterator[bytes]) -> None:
        """Take an uploaded file, for a later create."""
        await self._uploads.add(digest, pieces)

    def _check_free(self, name: str) -> None:
        try:
            self._catalogue.check_free(name)
        except NameTaken as error:
            raise InvalidRequest(str(error)) from error

    async def _change(self, change: Callable[[], T]) -> T:
        try:
            result = await asyncio.to_thread(change)
        except NoSuchModel as error:
            raise ModelNotFound(model=error.name, near=error.near) from error
        except (NameTaken, NameReserved, CliError) as error:
            raise InvalidRequest(str(error)) from error
        except StoreError as error:
            raise LaneError(str(error)) from error
        except OSError as error:
            raise LaneError(str(from_os_error(error, self._layout.models_dir))) from error
        await self._reload()
        return result


def _details(row: ModelRow, *, verbose: bool) -> ModelDetails:
    # Of other formats the row itself says what is known.
    info, template = file_facts(row.path, verbose=verbose) if row.format == "gguf" else ({}, "")
    overlay = row.overlay
    projector = {} if row.mmproj_path is None else file_facts(row.mmproj_path, verbose=verbose)[0]
    return ModelDetails(
        model_info=info,
        template=overlay.template or template,
        parameters=overlay.parameters,
        system=overlay.system,
        license=overlay.license,
        messages=overlay.messages,
        projector_info=projector,
        modelfile=write_modelfile(row),
        parent=overlay.source,
    )


def _remove(layout: Layout, name: str) -> None:
    with Store(layout) as store:
        row = store.remove_model(name)
        left = store.list_models()
    if row.pulled:
        delete_weights(row, left)


def _create(layout: Layout, uploads: Uploads, overlay: Overlay) -> None:
    directory = layout.models_dir / "created" / _folder(overlay)
    fresh = not directory.exists()
    try:
        adapters = _place(uploads, overlay.adapters, directory)
        source, projectors = overlay.source or "", tuple[str, ...]()
        if overlay.files:
            source, projectors = _weights(_place(uploads, overlay.files, directory))
        recipe = Recipe(
            source=source,
            files=projectors,
            adapters=tuple(map(str, adapters)),
            template=overlay.template,
            system=overlay.system,
            parameters=overlay.parameters,
            messages=tuple({key: str(value) for key, value in turn.items()} for turn in overlay.messages),
            license=overlay.license,
        )
        created = create_row(layout, overlay.name, recipe, base_dir=directory)
    except BaseException:
        if fresh:
            shutil.rmtree(directory, ignore_errors=True)
        raise
    if overlay.files:
        # Links of ours: they go with the row.
        with Store(layout) as store:
            store.replace_model(replace(created.row, pulled=True))


def _folder(overlay: Overlay) -> str:
    """Return a folder's name that is another for other files, so that a create that fails harms no earlier one."""
    digests = sorted([*overlay.files.values(), *overlay.adapters.values()])
    return f"{encode_name(overlay.name)}-{hashlib.sha256(' '.join(digests).encode()).hexdigest()[:12]}"


def _place(uploads: Uploads, files: Mapping[str, str], directory: Path) -> list[Path]:
    """Give uploaded files their names, by hard link; return where they are.

    Raises:
        InvalidRequest: One was not uploaded, or has a name that leaves the directory.
    """
    placed: list[Path] = []
    for name, digest in files.items():
        blob = uploads.path_of(digest)
        if not blob.is_file():
            raise InvalidRequest(
                f"the file '{name[:80]}' was not uploaded: send it to POST /api/blobs/{digest} first.", param="files"
            )
        if not name or name.startswith(".") or "/" in name or "\\" in name:
            raise InvalidRequest(f"'{name[:80]}' cannot be a file's name here.", param="files")
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / name
        path.unlink(missing_ok=True)
        path.hardlink_to(blob)
        placed.append(path)
    return placed


def _weights(files: list[Path]) -> tuple[str, tuple[str, ...]]:
    """Return the model among some files, and the projectors.

    Raises:
        InvalidRequest: There is none, or more than one that is not a part of the same.
    """
    models: list[Path] = []
    projectors: list[Path] = []
    for path in sorted(files):
        try:
            kind = read_metadata_file(path).kind
        except GgufError as error:
            raise InvalidRequest(f"the file '{path.name}' is not a GGUF file: {error}", param="files") from error
        (projectors if kind is FileKind.PROJECTOR else models).append(path)
    if not models:
        raise InvalidRequest("none of the files is a model.", param="files")
    return str(models[0]), tuple(map(str, projectors))

"""Rows made from rows: overlays of configuration, which cost no bytes. Blocks on disk.

The new row points at the weights of its source and says what is different. Settings of the model in ``config.toml``
have the last word over it.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blazar_cli.errors import NotAModel, PathMissing
from blazar_cli.modelfile.parameters import PARAMETERS, Effect, check_parameters
from blazar_cli.modelfile.recipe import Recipe
from blazar_cli.registration import checked_projector, describe_model, row_capabilities
from blazar_cli.weights import delete_weights
from blazar_gguf import FileKind, GgufError, read_metadata_file
from blazar_routing.errors import InvalidRequest, ModelNotFound
from blazar_store.errors import NameTaken
from blazar_store.layout import Layout
from blazar_store.names import check_model_name, near_names
from blazar_store.overlays import is_go_template, is_jinja, lay_over
from blazar_store.store import Store
from blazar_store.types import ModelRow, RowOverlay
from blazar_supervisor.residency.model_files import unreadable

_ROLES = frozenset({"system", "user", "assistant"})
_LONGEST_TEMPLATE = 100_000
"""Bytes: it is handed to the engine as one argument, and Linux takes 131,072 at most."""
_PATH = re.compile(r"[./~]")


@dataclass(frozen=True, slots=True)
class Created:
    """A row that was made.

    Attributes:
        row: The row.
        replaced: Whether it took the place of one of the same name.
        notes: What was given and has no effect, a sentence each.
    """

    row: ModelRow
    replaced: bool
    notes: tuple[str, ...]


def create_row(layout: Layout, name: str, recipe: Recipe, *, base_dir: Path) -> Created:
    """Make a row from a recipe, or make one anew that was made before.

    Args:
        layout: Of the data directory.
        name: Of the new row.
        recipe: What it is made from.
        base_dir: What relative paths in the recipe start from.

    Raises:
        ModelNotFound: The source is neither a row nor a file.
        InvalidRequest: A template that no engine reads, a parameter or a turn that is none.
        NotAModel, ModelUnreadable, PathMissing: A file is not what it was given as.
        NameTaken: A row with weights of its own has the name.
        NameReserved: The name cannot be a row's.
    """
    check_model_name(name)
    notes = _check(recipe)
    try:
        return _create(layout, name, recipe, notes, base_dir)
    except NameTaken:
        # Somebody may have made it since it was looked for: that one is made anew, as if one had come after the other.
        return _create(layout, name, recipe, notes, base_dir)


def _create(layout: Layout, name: str, recipe: Recipe, notes: tuple[str, ...], base_dir: Path) -> Created:
    with Store(layout) as store:
        source = _source(store, recipe, base_dir)
        existing = store.find_model(name)
        if existing is not None and not (existing.overlay.source or existing.shards == source.shards):
            raise NameTaken(what="model", name=name, existing=existing.name)
        row = _laid_over(source, name, recipe, base_dir)
        if existing is None:
            store.add_model(row)
        else:
            row = replace(row, name=existing.name, engine=existing.engine, added_at=existing.added_at)
            store.replace_model(row)
            if existing.pulled and existing.shards != row.shards:
                delete_weights(existing, store.list_models())
    return Created(row, replaced=existing is not None, notes=(*recipe.notes, *notes))


def _source(store: Store, recipe: Recipe, base_dir: Path) -> ModelRow:
    given = recipe.source
    if not given:
        raise InvalidRequest(
            "what it is made from is missing: write FROM and a model or a .gguf file, or name it with `--from`.",
            param="from",
        )
    found = None if _PATH.match(given) else store.find_model(given)
    if found is not None:
        return found
    path = base_dir / Path(given).expanduser()
    if _PATH.match(given) or path.is_file() or path.suffix.lower() == ".gguf":
        # A link of Ollama's store has no ending that says what it is.
        known = next((row for row in store.list_models() if path in row.shards and not row.overlay.source), None)
        return known or describe_model(path)
    raise ModelNotFound(model=given, near=near_names(given, [row.name for row in store.list_models()]))


def _laid_over(source: ModelRow, name: str, recipe: Recipe, base_dir: Path) -> ModelRow:
    projector = source.mmproj_path
    for given in recipe.files:
        projector = checked_projector(base_dir / Path(given).expanduser())
    above = RowOverlay(
        source=recipe.source,
        system=recipe.system,
        messages=tuple(recipe.messages),
        parameters=check_parameters(recipe.parameters),
        template=recipe.template,
        license=recipe.license,
        adapters=tuple(_adapter(base_dir / Path(given).expanduser()) for given in recipe.adapters),
    )
    row = replace(
        source,
        name=name,
        mmproj_path=projector,
        overlay=lay_over(source.overlay, above),
        added_at=int(time.time()),
    )
    readable = source.template_readable or is_jinja(row.overlay.template)
    return replace(row, capabilities=row_capabilities(row), template_readable=readable)


def _adapter(path: Path) -> Path:
    if not path.exists():
        raise PathMissing(path=path)
    if path.is_dir():
        raise NotAModel(
            path=path,
            reason="an adapter must be a .gguf file, and this is a directory",
            advice="Convert it with llama.cpp's convert_lora_to_gguf.py.",
        )
    try:
        kind = read_metadata_file(path).kind
    except GgufError as error:
        raise unreadable(path, error) from error
    if kind is not FileKind.ADAPTER:
        raise NotAModel(
            path=path,
            reason=f"it was given as an adapter, and it is a file of kind {kind}",
            advice="ADAPTER takes a LoRA adapter; a model is named by FROM.",
        )
    return path.absolute()


def _check(recipe: Recipe) -> tuple[str, ...]:
    """Return what of a recipe has no effect.

    Raises:
        InvalidRequest: Something in it is wrong.
    """
    notes = [
        f"parameter {name} is kept and has no effect: {PARAMETERS[name].instead}"
        for name in check_parameters(recipe.parameters)
        if PARAMETERS[name].effect is Effect.NONE
    ]
    _check_turns(recipe.messages)
    template = recipe.template
    if is_go_template(template):
        notes.append(
            "the template is one of Ollama's (in Go's language): it is kept for `blazar show`, and the engine uses "
            "the chat template in the model's own file"
        )
    elif template.strip() and not is_jinja(template):
        raise InvalidRequest(
            "the template is neither Jinja nor one of Ollama's: nothing in it stands for the conversation. "
            "Leave it out to use the model's own, and put instructions into the system prompt.",
            param="template",
        )
    elif len(template.encode(errors="surrogatepass")) > _LONGEST_TEMPLATE:
        raise InvalidRequest(
            f"the template has more than {_LONGEST_TEMPLATE} bytes. Write it to a file and name that as "
            "`chat_template_file` in the model's settings.",
            param="template",
        )
    return tuple(notes)


def _check_turns(turns: Sequence[Mapping[str, object]]) -> None:
    for index, turn in enumerate(turns):
        if turn.get("role") not in _ROLES or not isinstance(turn.get("content"), str):
            raise InvalidRequest(
                f"messages[{index}] must have a role (system, user or assistant) and a text as its content.",
                param=f"messages[{index}]",
            )

"""The model and engine rows in memory, as gateway and supervisor ask for them: without blocking, many times a second.

The rows live in SQLite, where the command line changes them while the daemon runs; :class:`LiveCatalogue` holds the
last snapshot, and whoever watches the store replaces it as a whole.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from blazar_cli.served_templates import as_served
from blazar_gateway.ports import ModelCard
from blazar_gateway.request_rules import NO_RULES, RequestRules
from blazar_store.catalogue import ModelIndex
from blazar_store.errors import NameTaken
from blazar_store.names import NameTable, fold_name, near_names
from blazar_store.overlays import load_defaults
from blazar_store.settings import Settings
from blazar_store.store import Snapshot, Store
from blazar_store.types import EngineRow, LanePin, ModelRow

_log = logging.getLogger(__name__)

EMPTY = Snapshot(models=(), engines=())
NO_SETTINGS: Final = Settings()


class LiveCatalogue:
    """The rows at one moment, with what the settings say of them.

    Attributes:
        conflicts: Sentences about aliases that cannot be used, since a row has the name.
    """

    def __init__(self, snapshot: Snapshot = EMPTY, settings: Settings = NO_SETTINGS) -> None:
        self._snapshot = snapshot
        self._settings = settings
        self._engines: tuple[EngineRow, ...] = ()
        self._index = ModelIndex(())
        self._cards: Mapping[str, ModelCard] = {}
        self._aliases: Mapping[str, str] = {}
        self._alias_names = NameTable(())
        self.conflicts: tuple[str, ...] = ()
        self._pins = {pin.model: pin for pin in snapshot.pins}
        self._rebuild()

    def replace(self, snapshot: Snapshot) -> None:
        """Take a new snapshot."""
        self._snapshot = snapshot
        self._pins = {pin.model: pin for pin in snapshot.pins}
        self._rebuild()

    def configure(self, settings: Settings) -> None:
        """Take new settings."""
        self._settings = settings
        self._rebuild()

    def _rebuild(self) -> None:
        # No reader comes between: all of this is on the loop's thread and nothing in it waits.
        self._engines = self._snapshot.engines
        self._index = ModelIndex(self._snapshot.models)
        self._aliases, conflicts = usable_aliases(self._settings, self._index)
        self._alias_names = NameTable(self._aliases)
        self._cards = {row.name: self._card(row) for row in self._snapshot.models}
        for sentence in conflicts:
            if sentence not in self.conflicts:
                _log.warning("%s", sentence)
        self.conflicts = conflicts

    def _card(self, row: ModelRow) -> ModelCard:
        aliases = tuple(alias for alias, model in self._aliases.items() if model == row.name)
        return replace(
            card_of(as_served(row, self._settings)), aliases=aliases, rules=rules_of(self._settings, row.name)
        )

    # What the gateway asks (``blazar_gateway.ports.Catalogue``)

    def find(self, name: str) -> ModelCard | None:
        """Return the card of the row that a client's spelling means, or ``None``."""
        card = self._cards.get(self._index.resolve(name))
        if card is None and (model := self._aliases.get(self._alias_names.resolve(name))) is not None:
            return self._cards.get(model)
        return card

    def check_free(self, name: str) -> None:
        """Return if a row of this name is there, or a new one may have it.

        Raises:
            NameTaken: It is an alias.
        """
        if self._index.find(name) is None:
            check_no_alias(self._settings, name)

    def near(self, name: str) -> tuple[str, ...]:
        """Return up to three names that resemble ``name``."""
        return near_names(name, (*self._cards, *self._aliases))

    def cards(self) -> Sequence[ModelCard]:
        """Return every card, newest first."""
        return tuple(self._cards.values())

    # What the supervisor asks

    def find_row(self, name: str) -> ModelRow | None:
        """Return the row ``name``, spelled as the gateway resolved it."""
        return self._index.find(name)

    def engines(self) -> Sequence[EngineRow]:
        """Return every engine build, the active one of each kind first."""
        return self._engines

    def find_pin(self, name: str) -> LanePin | None:
        """Return the engine build that the row ``name`` was moved to, if it was."""
        return self._pins.get(name)

    def pins(self) -> Sequence[LanePin]:
        """Return where models were moved to."""
        return tuple(self._pins.values())

    def add_pin(self, pin: LanePin) -> None:
        """Note where a model was moved to; the next snapshot has it too."""
        self._pins[pin.model] = pin

    def rows(self) -> Sequence[ModelRow]:
        """Return every model row, newest first."""
        return self._index.rows


def usable_aliases(settings: Settings, rows: ModelIndex) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the row that each alias means, and a sentence about each alias that is a row's own name.

    A row always goes first: adding a model must not be undone by a setting that was written before.
    """
    names = {fold_name(row.name): row.name for row in rows.rows}
    found: dict[str, str] = {}
    conflicts = []
    for alias, model in settings.aliases().items():
        taken, meant = names.get(fold_name(alias)), names.get(fold_name(model))
        if taken is not None:
            conflicts.append(
                f"the alias '{alias}' of '{model}' means nothing: there is a model '{taken}'. "
                f'Take the alias out of [models."{model}"], or give the other model another name.'
            )
        elif meant is not None:
            found[alias] = meant
    return found, tuple(conflicts)


def check_no_alias(settings: Settings, name: str) -> None:
    """Return if a new row may have the name: an alias of that name would mean nothing from then on.

    Raises:
        NameTaken: The settings give it to another model.
    """
    folded = fold_name(name)
    for alias, model in settings.aliases().items():
        if fold_name(alias) == folded:
            raise NameTaken(what="model", name=name, existing=alias, alias_of=model)


def row_named(store: Store, settings: Settings, name: str) -> ModelRow | None:
    """Return the row that ``name`` means for a command that reads the store itself, aliases included."""
    rows = ModelIndex(store.list_models())
    found = rows.find(name)
    if found is not None:
        return found
    aliases, _ = usable_aliases(settings, rows)
    return rows.find(aliases.get(NameTable(aliases).resolve(name), ""))


def rules_of(settings: Settings, name: str) -> RequestRules:
    """Return what the settings say of requests for the row ``name``, in the gateway's words."""
    written = settings.for_model(name).written
    arguments = written.chat_template_kwargs or {}
    decides = written.reasoning_effort is not None or "enable_thinking" in arguments
    request = written.request
    if request is None:
        return RequestRules(decides_thinking=True) if decides else NO_RULES
    return RequestRules(
        default=request.default.fields(), force=request.force.fields(), strip=request.strip, decides_thinking=decides
    )


def card_of(row: ModelRow) -> ModelCard:
    """Return a row as the HTTP surface shows it."""
    return ModelCard(
        name=row.name,
        path=str(row.path),
        size_bytes=row.size_bytes,
        digest=row.digest,
        added_at=row.added_at,
        modified_at=row.modified_at,
        format=row.format,
        architecture=row.arch,
        parameters=row.params,
        quantization=row.quant,
        context_length=row.ctx_train,
        capabilities=row.capabilities,
        engine=row.engine or "llamacpp",
        template_readable=row.template_readable,
        overlay=row.overlay,
    )


def loaded_as(row: ModelRow) -> tuple[object, ...]:
    """Return what of a row decides how its engine is started: where it differs, an engine that runs is out of date."""
    return row.shards, row.mmproj_path, row.engine, load_defaults(row.overlay)

"""The model and engine rows in memory, as gateway and supervisor ask for them: without blocking, many times a second.

The rows live in SQLite, where the command line changes them while the daemon runs; :class:`LiveCatalogue` holds the
last snapshot, and whoever watches the store replaces it as a whole.
"""

from collections.abc import Mapping, Sequence

from blazar_gateway.ports import ModelCard
from blazar_store.catalogue import ModelIndex
from blazar_store.overlays import load_defaults
from blazar_store.store import Snapshot
from blazar_store.types import EngineRow, ModelRow

EMPTY = Snapshot(models=(), engines=())


class LiveCatalogue:
    """The rows at one moment. Replacing them is one assignment, so a reader never sees half of a change."""

    def __init__(self, snapshot: Snapshot = EMPTY) -> None:
        self._engines: tuple[EngineRow, ...] = ()
        self._index = ModelIndex(())
        self._cards: Mapping[str, ModelCard] = {}
        self.replace(snapshot)

    def replace(self, snapshot: Snapshot) -> None:
        """Take a new snapshot."""
        self._engines = snapshot.engines
        self._index = ModelIndex(snapshot.models)
        self._cards = {row.name: card_of(row) for row in snapshot.models}

    # What the gateway asks (``blazar_gateway.ports.Catalogue``)

    def find(self, name: str) -> ModelCard | None:
        """Return the card of the row that a client's spelling means, or ``None``."""
        return self._cards.get(self._index.resolve(name))

    def near(self, name: str) -> tuple[str, ...]:
        """Return up to three names that resemble ``name``."""
        return self._index.near(name)

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

    def rows(self) -> Sequence[ModelRow]:
        """Return every model row, newest first."""
        return self._index.rows


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

"""The ``[[preload]]`` of ``config.toml``: what a starting daemon loads before anybody asks."""

from pydantic import Field

from blazar_store.names import fold_name
from blazar_store.settings_models import YEAR_S
from blazar_store.settings_values import ModelName, Table


class PreloadEntry(Table):
    """One model that is loaded when the daemon starts."""

    model: ModelName = Field(
        examples=["smollm2"], description="The model to load when the daemon starts, in the order of these tables."
    )
    keep_alive_secs: int | None = Field(
        default=None,
        examples=[-1],
        ge=-1,
        le=YEAR_S,
        description="Seconds without a request until it is unloaded, -1 for ever; `idle_timeout_secs` if not set.",
    )


def each_model_once(value: tuple[PreloadEntry, ...]) -> tuple[PreloadEntry, ...]:
    """Refuse a model that stands in two tables.

    Raises:
        ValueError: With the end of a sentence that begins with "must be".
    """
    seen: set[str] = set()
    for entry in value:
        if fold_name(entry.model) in seen:
            raise ValueError(f"one table per model; '{entry.model}' stands twice")
        seen.add(fold_name(entry.model))
    return value

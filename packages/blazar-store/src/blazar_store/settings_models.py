"""What can be set for one model in ``[models."NAME"]``, or in ``[defaults]`` for all."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, Strict, model_validator

from blazar_store.settings_engine import EngineSettings, ProjectorPolicy
from blazar_store.settings_request import RequestSettings
from blazar_store.settings_speculation import SpeculationSettings
from blazar_store.settings_values import AliasName, CacheType

YEAR_S: Final = 366 * 24 * 3600
DAY_S: Final = 24 * 3600

Aliases = Annotated[tuple[AliasName, ...], Strict(strict=False)]

_EXCLUSIVE: Final = (("chat_template", "chat_template_file"), ("mcp_servers_config", "mcp_servers_json"))
"""Pairs of which a table may have one only; one of a model's own replaces either of the defaults."""

_ORDERED: Final = (("spec_draft_n_min", "spec_draft_n_max"), ("spec_ngram_mod_n_min", "spec_ngram_mod_n_max"))
"""Pairs of which the first may not be the larger; the engine would not say so."""


class ModelSettings(SpeculationSettings, EngineSettings):
    """What can be set for one model, or in ``[defaults]`` for all; what is absent is decided elsewhere."""

    replicas: int | None = Field(
        default=None,
        examples=[2],
        ge=1,
        le=64,
        description="The most engine processes that share its requests, started as needed while memory has room; "
        "1 if not set.",
    )
    abandoned_drain_secs: int | None = Field(
        default=None,
        examples=[60],
        ge=0,
        le=DAY_S,
        description="Seconds for which the answer of a client that has left is read on and thrown away, for an engine "
        "that breaks when a request is dropped; 0, or not set, drops it at once.",
    )
    load_timeout_secs: int | None = Field(
        default=None, examples=[180], ge=1, le=DAY_S, description="Seconds a load may take before it counts as failed."
    )
    idle_timeout_secs: int | None = Field(
        default=None,
        examples=[1800],
        ge=0,
        le=YEAR_S,
        description="Seconds without a request until it is unloaded; 0 is never.",
    )
    idle_sleep_secs: int | None = Field(
        default=None,
        examples=[300],
        ge=0,
        le=YEAR_S,
        description="Seconds without a request until it sleeps; 0 is never.",
    )

    request: RequestSettings | None = Field(
        default=None, description="Parameters of requests: what is used by default, what in any case, what is left out."
    )

    @model_validator(mode="after")
    def _agrees(self) -> "ModelSettings":
        for one, other in _EXCLUSIVE:
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(f"a table with either `{one}` or `{other}`, not both")
        for low, high in _ORDERED:
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise ValueError(f"a table in which `{low}` is not more than `{high}` ({least} > {most})")
        return self

    def over(self, defaults: "ModelSettings") -> "ModelSettings":
        """Return what holds with these settings before ``defaults``."""
        own, general = _given(self), _given(defaults)
        for pair in (*_EXCLUSIVE, *_ORDERED):
            # A pair belongs together: half of one and half of the other is nobody's wish.
            if own.keys() & set(pair):
                for name in pair:
                    general.pop(name, None)
        if self.request is not None and defaults.request is not None:
            own["request"] = self.request.over(defaults.request)
        return ModelSettings.model_construct(None, **{**general, **own})


def _given(settings: ModelSettings) -> dict[str, Any]:
    return {name: value for name in ModelSettings.model_fields if (value := getattr(settings, name)) is not None}


class ModelTable(ModelSettings):
    """What can be set for one model only, besides."""

    aliases: Aliases = Field(
        default=(), examples=[["gpt-4o"]], description="Further names under which clients may ask for the model."
    )


@dataclass(frozen=True, slots=True)
class ModelKnobs:
    """The settings of one model: those with a default filled in, and all that were written.

    Attributes:
        ctx_tokens: The context asked for, or ``None`` for ``auto``.
        slots: Requests served at the same time, at least 1; 1 if ``deterministic``.
        cache_type_k: Element type of the keys.
        cache_type_v: Element type of the values.
        cache_ram_mb: For the prompt cache, before the cap.
        gpu_layers: A count, ``auto`` or ``all``.
        ubatch: Tokens computed at once.
        replicas: The most children that share its requests.
        abandoned_drain_s: 0 for dropping what nobody waits for.
        engine: The kind or tag the model is bound to, or ``None``.
        mmproj_policy: What to do with a projector.
        chat_template_file: Absolute, ``~`` expanded, or ``None``. It may be missing until the load.
        extra_args: As written.
        load_timeout_s: Or ``None`` for what suits the engine kind.
        idle_timeout_s: 0 for never.
        idle_sleep_s: 0 for never.
        written: What was written for the model and, where it says nothing, in ``[defaults]``; the rest is ``None``.
    """

    ctx_tokens: int | None
    slots: int
    cache_type_k: CacheType
    cache_type_v: CacheType
    cache_ram_mb: int
    gpu_layers: int | Literal["auto", "all"]
    ubatch: int
    replicas: int
    abandoned_drain_s: int
    engine: str | None
    mmproj_policy: ProjectorPolicy
    chat_template_file: Path | None
    extra_args: tuple[str, ...]
    load_timeout_s: int | None
    idle_timeout_s: int
    idle_sleep_s: int
    written: ModelSettings


def knobs_of(
    written: ModelSettings, *, load_timeout_s: int | None, idle_timeout_s: int, idle_sleep_s: int, cache_ram_mb: int
) -> ModelKnobs:
    """Return the settings of a model with nothing left open.

    Args:
        written: Its own before the defaults.
        load_timeout_s: What holds where they say nothing; the same goes for the others.
        idle_timeout_s: Likewise.
        idle_sleep_s: Likewise.
        cache_ram_mb: Likewise.
    """
    slots = 4 if written.slots is None else written.slots
    return ModelKnobs(
        ctx_tokens=written.ctx if isinstance(written.ctx, int) else None,
        slots=1 if written.deterministic else slots,
        cache_type_k=written.cache_type_k or "f16",
        cache_type_v=written.cache_type_v or "f16",
        cache_ram_mb=_first(written.cache_ram_mb, cache_ram_mb),
        gpu_layers="auto" if written.gpu_layers is None else written.gpu_layers,
        ubatch=512 if written.ubatch is None else written.ubatch,
        abandoned_drain_s=written.abandoned_drain_secs or 0,
        replicas=1 if written.replicas is None else written.replicas,
        engine=written.engine,
        mmproj_policy=_policy(written.mmproj_policy),
        chat_template_file=expand(written.chat_template_file),
        extra_args=written.extra_args or (),
        load_timeout_s=written.load_timeout_secs or load_timeout_s,
        idle_timeout_s=_first(written.idle_timeout_secs, idle_timeout_s),
        idle_sleep_s=_first(written.idle_sleep_secs, idle_sleep_s),
        written=written,
    )


_POLICIES: Final[Mapping[bool, ProjectorPolicy]] = {True: "attach", False: "skip"}


def _policy(written: ProjectorPolicy | bool | None) -> ProjectorPolicy:
    if written is None:
        return "attach"
    return _POLICIES[written] if isinstance(written, bool) else written


def expand(path: str | None) -> Path | None:
    """Return a path from the settings with its ``~`` expanded."""
    return None if path is None else Path(path).expanduser()


def _first(own: int | None, general: int) -> int:
    return general if own is None else own

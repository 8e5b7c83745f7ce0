"""Which kinds of speculation a model gets, and the flags that go with each. Pure.

Every kind is verified by the model itself, so none changes the answer; but each costs memory or time when it guesses
badly.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from blazar_store.settings import ModelSettings
from blazar_store.settings_values import spec_chain
from blazar_supervisor.engines.llamacpp.arguments import BadArgument
from blazar_supervisor.engines.llamacpp.options import Option
from blazar_supervisor.engines.manifest import Manifest

LEAST_ACCEPTED: Final = 0.3
"""The share of guessed tokens below which ``auto`` does without."""

HEADS: Final = "draft-mtp"
"""Guessing with the model's own heads for further tokens."""

SERVED_HEADS: Final = frozenset({"qwen35", "qwen35moe"})
"""Architectures whose heads every build with :data:`HEADS` can use. Others joined one by one, and a build that cannot
use a model's heads fails the load, so those are for people who ask: ``spec = "draft-mtp"``."""

_NEEDS_DRAFT_MODEL: Final = frozenset({"draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark"})
_FLAG: Final = "--spec-type"


def kinds_of(
    written: ModelSettings,
    *,
    architecture: str,
    predicts: bool,
    accepted: float | None,
    manifest: Manifest,
    engine: str,
) -> tuple[str, ...]:
    """Return the kinds of speculation to start with; none is an empty tuple.

    Args:
        written: The model's settings.
        architecture: The model's.
        predicts: Whether its file has heads that predict further tokens.
        accepted: The share of guesses that were right when it last ran, 0.0 to 1.0, or ``None`` when unknown.
        manifest: The build's flags.
        engine: The build's tag, for the text.

    Raises:
        BadArgument: A kind was asked for that the build, the file or the settings do not offer.
    """
    offered = _offered(manifest)
    asked = spec_chain(written.spec or "auto")
    if written.spec == "off":
        return ()
    if not asked:
        if written.spec_draft_model is not None:
            asked = ("draft-simple",)
        elif predicts and architecture in SERVED_HEADS and HEADS in offered:
            asked = (HEADS,) if accepted is None or accepted >= LEAST_ACCEPTED else ()
    for kind in asked:
        _check(kind, written, offered, predicts=predicts, engine=engine)
    return asked


def kinds_wished(written: ModelSettings) -> tuple[str, ...]:
    """Return the kinds that settings alone name, for an account of memory without an engine at hand."""
    if written.spec in {None, "auto"}:
        return () if written.spec_draft_model is None else ("draft-simple",)
    return spec_chain(str(written.spec))


def _check(kind: str, written: ModelSettings, offered: Sequence[str], *, predicts: bool, engine: str) -> None:
    if kind not in offered:
        have = f"it has {', '.join(offered)}" if offered else f"it has no flag '{_FLAG}'"
        raise BadArgument(f"the engine '{engine}' cannot guess tokens by '{kind}': {have}")
    if kind in _NEEDS_DRAFT_MODEL and written.spec_draft_model is None:
        raise BadArgument(f"spec = '{kind}' needs a draft model: set `spec_draft_model` to its GGUF")
    if kind == HEADS and not predicts:
        raise BadArgument(
            f"spec = '{kind}' needs a model with heads that predict further tokens, and this one has none"
        )


def _offered(manifest: Manifest) -> tuple[str, ...]:
    """Return the kinds that the build has, from the placeholder of its flag."""
    flag = manifest.find(_FLAG)
    return () if flag is None else tuple(word for word in flag.placeholder.split(",") if word != "none")


@dataclass(frozen=True, slots=True)
class SpecKnob:
    """A setting that one family of kinds reads.

    Attributes:
        setting: Its name.
        family: The kinds it matters to begin with this.
        flag: As the engine calls it.
        text: Its value as the engine takes it, ``None`` to leave it out.
    """

    setting: str
    family: str
    flag: str
    text: Callable[[object], str | None] = str


def _list(value: object) -> str:
    assert isinstance(value, tuple)
    return ",".join(value)


def _path(value: object) -> str:
    return str(Path(str(value)).expanduser())


def _priority(value: object) -> str | None:
    # The engine refuses the -1 that the settings have for "as it is".
    return None if value == -1 else str(value)


SPEC_KNOBS: Final = (
    SpecKnob("spec_draft_model", "draft-", "--spec-draft-model", _path),
    SpecKnob("spec_draft_n_max", "draft-", "--spec-draft-n-max"),
    SpecKnob("spec_draft_n_min", "draft-", "--spec-draft-n-min"),
    SpecKnob("spec_draft_p_min", "draft-", "--spec-draft-p-min"),
    SpecKnob("spec_draft_p_split", "draft-", "--spec-draft-p-split"),
    SpecKnob("spec_draft_gpu_layers", "draft-", "--spec-draft-ngl"),
    SpecKnob("spec_draft_devices", "draft-", "--spec-draft-device", _list),
    SpecKnob("spec_draft_cache_type_k", "draft-", "--spec-draft-type-k"),
    SpecKnob("spec_draft_cache_type_v", "draft-", "--spec-draft-type-v"),
    SpecKnob("spec_draft_threads", "draft-", "--spec-draft-threads"),
    SpecKnob("spec_draft_threads_batch", "draft-", "--spec-draft-threads-batch"),
    SpecKnob("spec_draft_poll", "draft-", "--spec-draft-poll"),
    SpecKnob("spec_draft_prio", "draft-", "--spec-draft-prio", _priority),
    SpecKnob("spec_draft_n_cpu_moe", "draft-", "--spec-draft-n-cpu-moe"),
    SpecKnob("spec_ngram_mod_n_match", "ngram-mod", "--spec-ngram-mod-n-match"),
    SpecKnob("spec_ngram_mod_n_min", "ngram-mod", "--spec-ngram-mod-n-min"),
    SpecKnob("spec_ngram_mod_n_max", "ngram-mod", "--spec-ngram-mod-n-max"),
    SpecKnob("spec_ngram_simple_size_n", "ngram-simple", "--spec-ngram-simple-size-n"),
    SpecKnob("spec_ngram_simple_size_m", "ngram-simple", "--spec-ngram-simple-size-m"),
    SpecKnob("spec_ngram_simple_min_hits", "ngram-simple", "--spec-ngram-simple-min-hits"),
    SpecKnob("spec_ngram_map_k_size_n", "ngram-map-k", "--spec-ngram-map-k-size-n"),
    SpecKnob("spec_ngram_map_k_size_m", "ngram-map-k", "--spec-ngram-map-k-size-m"),
    SpecKnob("spec_ngram_map_k_min_hits", "ngram-map-k", "--spec-ngram-map-k-min-hits"),
    SpecKnob("spec_ngram_map_k4v_size_n", "ngram-map-k4v", "--spec-ngram-map-k4v-size-n"),
    SpecKnob("spec_ngram_map_k4v_size_m", "ngram-map-k4v", "--spec-ngram-map-k4v-size-m"),
    SpecKnob("spec_ngram_map_k4v_min_hits", "ngram-map-k4v", "--spec-ngram-map-k4v-min-hits"),
)
"""Every setting of speculation but ``spec`` itself, in the order of the argument vector."""


def _serves(knob: SpecKnob, kinds: Sequence[str]) -> bool:
    if knob.family.endswith("-"):
        return any(kind.startswith(knob.family) for kind in kinds)
    return knob.family in kinds


def spec_options(written: ModelSettings, kinds: Sequence[str]) -> Iterable[Option]:
    """Yield the flags of the kinds in use."""
    if kinds:
        yield Option((_FLAG,), ",".join(kinds), required=True, setting="spec")
    for knob in SPEC_KNOBS:
        value = getattr(written, knob.setting)
        if value is not None and _serves(knob, kinds) and (text := knob.text(value)) is not None:
            yield Option((knob.flag,), text, required=True, setting=knob.setting)


def idle_settings(written: ModelSettings, kinds: Sequence[str]) -> str:
    """Return a sentence about settings that no kind in use reads, or ``""``."""
    idle = [
        knob.setting for knob in SPEC_KNOBS if getattr(written, knob.setting) is not None and not _serves(knob, kinds)
    ]
    if not idle or written.spec == "off":
        return ""
    using = f"`spec` is {', '.join(kinds)}" if kinds else "nothing guesses tokens ahead"
    return f"{', '.join(idle)} has no effect: {using}"

"""Which layers keep only a sliding window, and how wide it is.

Source: llama.cpp b10434, the ``load_arch_hparams`` of each architecture, confirmed by loading headers of every
architecture with and without ``sliding_window``, with a period, with an array, and with next-token-prediction blocks.
Architectures that are not in the table ignore ``attention.sliding_window`` (phi3, qwen2, mistral3 …).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from blazar_budget.shape import KeyReader, ModelShape
from blazar_gguf import GgufMeta

_WINDOW_KEY: Final = "attention.sliding_window"
_PATTERN_KEY: Final = "attention.sliding_window_pattern"


class Layout(StrEnum):
    """How an architecture says which of its layers slide."""

    PERIOD = "period"
    """Every period-th layer is full; a number in the pattern key is the period, an array there is ignored."""
    PERIOD_OR_ARRAY = "period-or-array"
    """As above, but an array says it layer by layer."""
    ARRAY = "array"
    """An array says it; a number stands for every layer alike."""
    ALL = "all"
    """Every layer slides."""


@dataclass(frozen=True, slots=True)
class WindowRule:
    """How one architecture slides.

    Attributes:
        layout: see :class:`Layout`.
        period: distance of full layers where the file has none.
        full_first: the full layer leads its group instead of closing it.
        optional: without a window (or with 0) the model has one ordinary cache.
        forced: window in tokens whatever the file says; 0 when the file decides.
        fallback: window where the key is absent.
        nextn_full: next-token-prediction blocks are full layers; otherwise the period runs on through them.
        only_layers: slides only in models of exactly that many main layers; 0 for any.
    """

    layout: Layout = Layout.PERIOD
    period: int = 0
    full_first: bool = False
    optional: bool = False
    forced: int = 0
    fallback: int = 0
    nextn_full: bool = False
    only_layers: int = 0


RULES: Final = {
    "afmoe": WindowRule(period=4, optional=True),
    "cohere2": WindowRule(period=4),
    "cohere2moe": WindowRule(Layout.PERIOD_OR_ARRAY, period=4, full_first=True, nextn_full=True),
    "exaone-moe": WindowRule(period=4),
    "exaone4": WindowRule(period=4, fallback=4096, nextn_full=True, only_layers=64),
    "gemma2": WindowRule(period=2, fallback=4096),
    "gemma3": WindowRule(period=6, optional=True),
    "gemma3n": WindowRule(period=5),
    "gemma4": WindowRule(Layout.ARRAY),
    "gpt-oss": WindowRule(period=2),
    "laguna": WindowRule(period=4, full_first=True, optional=True),
    "lfm2": WindowRule(Layout.ALL, optional=True),
    "llama4": WindowRule(period=4, forced=8192),
    "mellum": WindowRule(Layout.PERIOD_OR_ARRAY, period=4, optional=True),
    "mimo2": WindowRule(Layout.ARRAY),
    "muse-glimmer": WindowRule(Layout.PERIOD_OR_ARRAY, period=4),
    "olmo2": WindowRule(period=4, optional=True),
    "plamo3": WindowRule(period=8, optional=True),
    "smallthinker": WindowRule(period=4, full_first=True, optional=True, forced=4096),
    "step35": WindowRule(Layout.ARRAY),
}
"""Architectures that slide."""


@dataclass(frozen=True, slots=True)
class Window:
    """The sliding window of one model.

    Attributes:
        tokens: how far a window layer looks back.
        layers: for each layer, True when it slides.
    """

    tokens: int
    layers: tuple[bool, ...]


def find_window(meta: GgufMeta, shape: ModelShape, keys: KeyReader) -> Window | None:
    """Return the model's window, or None when it has one ordinary cache.

    Args:
        meta: the header.
        shape: its sizes.
        keys: reader that collects what is odd.
    """
    rule = RULES.get(meta.architecture)
    if rule is None or (rule.only_layers and shape.main_layers != rule.only_layers):
        return None
    stored = keys.number(_WINDOW_KEY, -1)
    if stored == 0 and rule.forced:
        return None
    if stored <= 0 and rule.optional:
        return None
    tokens = rule.forced or (stored if stored >= 0 else rule.fallback)
    return Window(tokens, _sliding_layers(meta, shape, rule, keys))


def _sliding_layers(meta: GgufMeta, shape: ModelShape, rule: WindowRule, keys: KeyReader) -> tuple[bool, ...]:
    layers = shape.layers
    reach = shape.main_layers if rule.nextn_full else layers
    if rule.layout is Layout.ALL:
        return (True,) * layers
    if rule.layout is not Layout.PERIOD:
        given = keys.flags(_PATTERN_KEY, reach)
        if given is not None:
            return given + (False,) * (layers - reach)
    is_array = isinstance(meta.arch(_PATTERN_KEY), tuple)
    number = None if is_array or not keys.has(_PATTERN_KEY) else keys.number(_PATTERN_KEY)
    if rule.layout is Layout.ARRAY:
        return (bool(number),) * layers
    period = rule.period if number is None else number
    return tuple(i < reach and _slides(i, period, full_first=rule.full_first) for i in range(layers))


def _slides(layer: int, period: int, *, full_first: bool) -> bool:
    """Period 0 makes every layer slide, period 1 none."""
    if period == 0:
        return True
    place = layer % period
    return place != 0 if full_first else place < period - 1

"""The engine's flags that decide what caches cost, checked the way the engine checks them.

Source: llama.cpp b10434, ``llama_init_from_model``; messages in quotation marks are the engine's own.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from blazar_budget.cache_types import CacheType, cache_type
from blazar_budget.errors import UnservableSettings
from blazar_budget.memory import MemoryPlan


class FlashAttention(StrEnum):
    """``-fa``. ``auto`` turns out as on wherever it was tried."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """Cache types and flash attention as the engine will run them.

    Attributes:
        type_k, type_v: element types.
        flash: False when V is stored transposed (and padded to the widest layer).
    """

    type_k: CacheType
    type_v: CacheType
    flash: bool


def cache_settings(plan: MemoryPlan, *, type_k: str, type_v: str, flash_attn: str) -> CacheSettings:
    """Resolve the flags for one model.

    Raises:
        UnknownCacheType: a type the engine does not accept.
        UnservableSettings: the engine would exit at start-up.
    """
    k, v = cache_type(type_k), cache_type(type_v)
    asked = FlashAttention(flash_attn)
    # grok's attention is not implemented with flash attention: the engine forces it off, with a warning
    flash = asked is not FlashAttention.OFF and plan.shape.architecture != "grok"
    if plan.latent and k is not v:
        raise UnservableSettings(
            reason=f'the engine stops with "model does not support different K ({k}) and V ({v}) cache types": '
            "this model keeps one compressed row for both",
            advice=f"set cache_type_k and cache_type_v to the same type, e.g. both to {k}",
        )
    if v.is_quantised and not flash:
        raise UnservableSettings(
            reason=f"a V cache of type {v} needs flash attention, which is off here; the engine stops with "
            '"quantized V cache requires flash_attn to be enabled"',
            advice="leave flash attention on, or set cache_type_v to f16",
        )
    if flash:
        _check_blocks("K", k, sorted(plan.key_lengths), "heads of")
        _check_blocks("V", v, sorted(plan.value_lengths), "heads of")
    else:
        widths = {width for cache in plan.caches for width in cache.key_elements}
        _check_blocks("K", k, sorted(widths), "rows of")
    return CacheSettings(k, v, flash)


def _check_blocks(side: str, kind: CacheType, sizes: Iterable[int], what: str) -> None:
    """Blocks of a quantised type must not straddle heads (with flash attention) or rows (without)."""
    for size in sizes:
        if size % kind.block:
            raise UnservableSettings(
                reason=f"a {side} cache of type {kind} packs {kind.block} numbers into a block, which does not divide "
                f"this model's {what} {size}",
                advice=f"set cache_type_{side.lower()} to f16",
            )

"""Four ways out of a refusal, with the values that would fit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from blazar_budget.cache_types import CacheType
from blazar_budget.errors import BudgetError
from blazar_budget.footprint import Footprint, Launch, footprint
from blazar_budget.judgement import Room, judge
from blazar_budget.machine import Memory
from blazar_budget.search import max_ctx_that_fits, max_gpu_layers_that_fit
from blazar_budget.shape import read_context_length
from blazar_gguf import GgufMeta

OFFERED_TYPES: Final = (CacheType.Q8_0, CacheType.Q5_1, CacheType.Q4_0)
"""Cache types worth offering, the least lossy first."""


@dataclass(frozen=True, slots=True)
class Levers:
    """What to change so that a model fits; each alone, everything else as asked.

    Attributes:
        ctx: the largest context in tokens, None when none is small enough.
        cache_type: the least lossy type for K and V, None when none is small enough.
        gpu_layers: the largest ``-ngl`` with the rest on the host, None when no number helps.
        weights_bytes: the largest weights that could be served beside everything else; 0 when nothing is left for them.
        smaller_by_bytes: how much smaller than now that is.
    """

    ctx: int | None
    cache_type: CacheType | None
    gpu_layers: int | None
    weights_bytes: int
    smaller_by_bytes: int


def find_levers(
    meta: GgufMeta, launch: Launch, needs: Footprint, memory: Memory, *, parts: Sequence[GgufMeta] = ()
) -> Levers:
    """Return the levers for a launch that was refused.

    Args:
        meta: header of the model.
        launch: how it was to be started.
        needs: its footprint.
        memory: what there is.
        parts: headers of all parts of a split model.
    """
    asked = launch.ctx or read_context_length(meta)
    weights = needs.weights_bytes
    others = needs.needed_bytes - weights
    short = judge(needs, memory).host_short_bytes
    room = max(min(needs.pool_bytes - others, weights - short if short else weights), 0)
    return Levers(
        ctx=max_ctx_that_fits(meta, launch, memory, parts=parts, most=asked) or None,
        cache_type=_cache_type(meta, launch, needs, memory, parts),
        gpu_layers=_gpu_layers(meta, launch, memory, parts),
        weights_bytes=room,
        smaller_by_bytes=max(weights - room, 0),
    )


def _cache_type(
    meta: GgufMeta, launch: Launch, needs: Footprint, memory: Memory, parts: Sequence[GgufMeta]
) -> CacheType | None:
    """The first offered type that is smaller than what was asked for and fits."""
    for kind in OFFERED_TYPES:
        try:
            tried = footprint(meta, launch.with_cache_type(kind), memory, parts=parts)
        except BudgetError:
            continue
        if tried.kv.kv_bytes < needs.kv.kv_bytes and judge(tried, memory).room is not Room.OVER:
            return kind
    return None


def _gpu_layers(meta: GgufMeta, launch: Launch, memory: Memory, parts: Sequence[GgufMeta]) -> int | None:
    found = max_gpu_layers_that_fit(meta, launch, memory, parts=parts)
    return None if found == launch.offload.gpu_layers else found

"""The documented memory arithmetic: scalar, with short-cuts, and bound by contract.

These functions stay as they are documented, although the exact figures are in :mod:`blazar_budget.kv`: the short-cuts
for quantised caches are 6 and 11 % too low, and the scalar formula holds only for models that keep equal K and V heads
on every layer. :mod:`blazar_budget.verdict` uses exact sizes; :meth:`KvCache.explain` shows both.
"""

from typing import Final

from blazar_budget.cache_types import CacheType, cache_type
from blazar_budget.shape import read_shape
from blazar_gguf import GgufMeta

MIB: Final = 1 << 20
GIB: Final = 1 << 30

OVERHEAD_BYTES: Final = 700 * MIB
"""Flat charge for compute buffers and the backend's own context."""

MIN_LOOPS: Final = 1
MAX_LOOPS: Final = 8
"""Loop counts are clamped to this range by contract."""

_K_AND_V: Final = 2
_F16_BYTES: Final = 2
_FLOOR_SLACK_BYTES: Final = 64 * MIB
_SHORT_CUTS: Final = {CacheType.Q8_0: 2, CacheType.Q4_0: 4}


def estimate_kv_vram_charge(meta: GgufMeta, ctx: int) -> int:
    """Return the documented f16 charge for a KV cache, in bytes.

    ``2 x n_layer x n_kv_head x head_dim x ctx x 2``; layers are multiplied by ``num_loops`` (1 to 8) for loop
    architectures, and KV heads that differ by layer are summed.

    Args:
        meta: the model's header.
        ctx: tokens of context; 0 costs nothing.
    """
    shape = read_shape(meta)
    heads = sum(shape.heads_kv[: shape.blocks])
    loops = min(max(meta.num_loops, MIN_LOOPS), MAX_LOOPS)
    return _K_AND_V * loops * heads * shape.key_length * max(ctx, 0) * _F16_BYTES


def scale_kv_by_cache_type(kv_f16_bytes: int, kind: str) -> int:
    """Return the documented charge for a cache type: q8_0 is a half of f16, q4_0 a quarter, every other type all of it.

    Raises:
        UnknownCacheType: a type the engine does not accept.
    """
    return kv_f16_bytes // _SHORT_CUTS.get(cache_type(kind), 1)


def weights_floor(weights_bytes: int) -> int:
    """Return floor 2a-bis, ``(weights + 64 MiB) x 20 / 17``: the least memory in which the weights leave 15 % free."""
    return (weights_bytes + _FLOOR_SLACK_BYTES) * 20 // 17

"""The cache figure taken apart, for a person who doubts it."""

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from blazar_budget.buffers import CacheBuffer, StateBuffer
from blazar_budget.cells import CellLayout
from blazar_budget.rows import CacheKind
from blazar_budget.settings import CacheSettings

_MIB: Final = 1 << 20
_NAMES: Final = {
    CacheKind.KV: "cache",
    CacheKind.BASE: "full-length layers",
    CacheKind.SWA: "sliding-window layers",
    CacheKind.MAIN: "cache",
    CacheKind.INDEXER: "indexer",
    CacheKind.CSA: "rows for every 4 tokens",
    CacheKind.HCA: "rows for every 128 tokens",
}


def explain_kv(
    architecture: str,
    layout: CellLayout,
    settings: CacheSettings,
    caches: Sequence[CacheBuffer],
    states: Sequence[StateBuffer],
    *,
    contract_bytes: int,
    doubts: Sequence[str],
) -> str:
    """Return the lines of :meth:`blazar_budget.KvCache.explain`; the arguments are that object's attributes."""
    total = sum(c.k_bytes + c.v_bytes for c in caches) + sum(s.r_bytes + s.s_bytes for s in states)
    pool = "one pool for all" if layout.unified else "one pool each"
    slots = "1 slot" if layout.slots == 1 else f"{layout.slots} slots, {pool}"
    lines = [f"{architecture or 'unknown architecture'}: {_mib(total)} for {layout.total_cells:,} cells ({slots})"]
    lines += [_cache_line(cache, settings) for cache in caches]
    lines += [
        f"  recurrent state: layers {_ranges(state.layers)}, f32, {_mib(state.r_bytes + state.s_bytes)}"
        for state in states
        if state.layers
    ]
    if not caches and not states:
        lines.append("  this architecture keeps nothing between tokens")
    lines.append(f"  documented scalar formula: {_mib(contract_bytes)}")
    lines += [f"  uncertain: {doubt}" for doubt in doubts]
    return "\n".join(lines)


def _cache_line(cache: CacheBuffer, settings: CacheSettings) -> str:
    streams = "" if cache.streams == 1 else f" x {cache.streams}"
    types = f"K {settings.type_k} {_mib(cache.k_bytes)}"
    types += f", V {settings.type_v} {_mib(cache.v_bytes)}" if cache.v_bytes else ", no V (compressed rows)"
    layers = f"layers {_ranges(cache.layers)}" if cache.layers else "no layers"
    return f"  {_NAMES[cache.kind]}: {layers}, {cache.cells:,} cells{streams}, {types}"


def _mib(amount: int) -> str:
    return f"{amount / _MIB:,.2f} MiB"


def _ranges(layers: Sequence[int]) -> str:
    """``0-2, 5, 7-9`` for a sorted run of numbers."""
    runs = groupby(enumerate(layers), key=lambda pair: pair[1] - pair[0])
    spans = [[layer for _, layer in run] for _, run in runs]
    return ", ".join(str(s[0]) if len(s) == 1 else f"{s[0]}-{s[-1]}" for s in spans)

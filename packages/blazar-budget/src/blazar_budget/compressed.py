"""deepseek4: a raw window cache, rows for every 4 and every 128 tokens, an indexer, and compressor state.

Source: llama.cpp's ``llama_kv_cache_dsv4``. The engine keeps all of these apart per slot even in a unified pool. The
figures follow that source, but no model of this architecture was measured: they count as an estimate.
"""

from typing import Final

from blazar_budget.recurrent import StateRows
from blazar_budget.rows import CacheKind, CacheRows
from blazar_budget.shape import KeyReader, ModelShape

_CSA_RATIO: Final = 4
_HCA_RATIO: Final = 128


def compressed_caches(shape: ModelShape, keys: KeyReader) -> tuple[CacheRows, ...]:
    """Return the K-only caches of the architecture."""
    csa, hca = _layers_by_ratio(shape, keys)
    layers = tuple(range(shape.main_layers))
    window = keys.number("attention.sliding_window")
    index_width = keys.number("attention.indexer.key_length")

    def rows(kind: CacheKind, held: tuple[int, ...], ratio: int, width: int | None = None) -> CacheRows:
        widths = tuple(shape.heads_kv[i] * shape.key_length if width is None else width for i in held)
        within = window if kind is CacheKind.SWA else None
        return CacheRows(kind, held, widths, (0,) * len(held), 0, within, ratio, per_slot=True)

    return (
        rows(CacheKind.SWA, layers, 1),
        rows(CacheKind.CSA, csa, _CSA_RATIO),
        rows(CacheKind.HCA, hca, _HCA_RATIO),
        rows(CacheKind.INDEXER, csa, _CSA_RATIO, index_width),
    )


def compressor_states(shape: ModelShape, keys: KeyReader) -> tuple[StateRows, ...]:
    """Return the compressors' running sums and scores."""
    csa, hca = _layers_by_ratio(shape, keys)
    index_width = keys.number("attention.indexer.key_length")
    wide = 2 * _CSA_RATIO * 2
    return (
        StateRows(csa, wide * shape.key_length, wide * shape.key_length),
        StateRows(hca, _HCA_RATIO * shape.key_length, _HCA_RATIO * shape.key_length),
        StateRows(csa, wide * index_width, wide * index_width),
    )


def _layers_by_ratio(shape: ModelShape, keys: KeyReader) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ratios = keys.per_layer("attention.compress_ratios", shape.layers)[: shape.main_layers]
    csa = tuple(i for i, ratio in enumerate(ratios) if ratio == _CSA_RATIO)
    hca = tuple(i for i, ratio in enumerate(ratios) if ratio == _HCA_RATIO)
    return csa, hca

"""One cache as the engine makes it, before any flag is known: its kind, its layers, and the width of their rows.

Kinds are named as in the engine's log:

=========  ==========================================================================================
kv         one ordinary cache
base, swa  full-length and sliding-window layers
main       the ordinary or latent cache of a model with an indexer
indexer    the keys (and, for minimax-m3, values) by which sparse attention chooses
csa, hca   deepseek4: one row for every 4 or 128 tokens
=========  ==========================================================================================
"""

from dataclasses import dataclass
from enum import StrEnum


class CacheKind(StrEnum):
    """What a cache is for; see the table in the module."""

    KV = "kv"
    BASE = "base"
    SWA = "swa"
    MAIN = "main"
    INDEXER = "indexer"
    CSA = "csa"
    HCA = "hca"


@dataclass(frozen=True, slots=True)
class CacheRows:
    """One cache: what it holds per token, before cells are known.

    Attributes:
        kind: what it is for.
        layers: indices of the layers it holds.
        key_elements, value_elements: row widths, one for each of ``layers``; value width 0 when there is no V.
        padded_value: V width of every layer without flash attention, where V is stored transposed and padded to the
            widest layer; 0 when there is no V.
        window: tokens it keeps, None for all.
        ratio: tokens per row.
        per_slot: has one stream per slot even in a unified pool.
    """

    kind: CacheKind
    layers: tuple[int, ...]
    key_elements: tuple[int, ...]
    value_elements: tuple[int, ...]
    padded_value: int
    window: int | None = None
    ratio: int = 1
    per_slot: bool = False

"""Which caches the engine makes for a model, before any flag is known.

Source: llama.cpp b10434, ``create_memory``: the layer filters of its cache classes.
"""

from dataclasses import dataclass

from blazar_budget.architectures import (
    COMPRESSED,
    GEMMA3N_OWNERS,
    HYBRID,
    HYBRID_BY_HEADS_AND_FF,
    HYBRID_EVERYWHERE,
    LATENT,
    NEXTN_WITHOUT_KV,
    NO_CACHE,
    PLAIN,
    RECURRENT,
    ROUTED,
    SPARSE,
    SPARSE_LATENT,
)
from blazar_budget.compressed import compressed_caches, compressor_states
from blazar_budget.recurrent import StateRows, find_state, recurrent_layers, state_of_unknown
from blazar_budget.rows import CacheKind, CacheRows
from blazar_budget.shape import KeyReader, ModelShape, read_shape
from blazar_budget.windows import RULES, Window, find_window
from blazar_gguf import GgufMeta


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """All caches of one model.

    Attributes:
        shape: its sizes.
        caches: in the engine's order.
        states: recurrent rows; more than one only for deepseek4.
        latent: the cache is one compressed row of keys (MLA).
        key_lengths, value_lengths: head sizes in use in the main model; sliding layers may have their own.
        doubts: why the figures may differ from the engine's; empty when they are exact.
    """

    shape: ModelShape
    caches: tuple[CacheRows, ...]
    states: tuple[StateRows, ...]
    latent: bool
    key_lengths: frozenset[int]
    value_lengths: frozenset[int]
    doubts: tuple[str, ...]

    @property
    def layer_count(self) -> int:
        """Layers as ``-ngl`` counts them: loops, next-token-prediction blocks and a router layer included."""
        beyond = max((layer + 1 for cache in self.caches for layer in cache.layers), default=0)
        return max(self.shape.layers, beyond)


def is_known(architecture: str) -> bool:
    """True when the architecture's caches are described here and agree with the engine's."""
    families = (PLAIN, LATENT, NO_CACHE, RECURRENT, HYBRID, RULES, {SPARSE})
    return any(architecture in family for family in families)


def plan_memory(meta: GgufMeta) -> MemoryPlan:
    """Return which caches the engine would make for this header. Never raises on odd content."""
    arch = meta.architecture
    shape = read_shape(meta)
    keys = KeyReader(meta)
    latent = arch == COMPRESSED or (arch in LATENT and _has_latent_keys(keys))
    window = find_window(meta, shape, keys)
    slides = window.layers if window is not None else (False,) * shape.layers
    caches = _caches(meta, shape, keys, window, latent=latent)
    state = find_state(meta, shape, keys)
    states: tuple[StateRows, ...] = (state,) if state is not None else ()
    doubts: tuple[str, ...] = ()
    if arch == COMPRESSED:
        doubts = ("deepseek4 keeps compressed rows whose size is estimated",)
        states = compressor_states(shape, keys)
    elif not is_known(arch):
        doubts = (f"architecture {arch!r} is unknown: taken as a full cache on every layer",)
        guess = state_of_unknown(shape, keys)
        states = (guess,) if guess is not None else ()
    main = slides[: shape.main_layers]
    return MemoryPlan(
        shape=shape,
        caches=caches,
        states=states,
        latent=latent,
        key_lengths=frozenset(shape.key_length_swa if swa else shape.key_length for swa in main),
        value_lengths=frozenset(shape.value_length_swa if swa else shape.value_length for swa in main),
        doubts=tuple(dict.fromkeys((*doubts, *shape.doubts, *keys.doubts))),
    )


def _caches(
    meta: GgufMeta, shape: ModelShape, keys: KeyReader, window: Window | None, *, latent: bool
) -> tuple[CacheRows, ...]:
    arch = meta.architecture
    if arch in NO_CACHE or arch in RECURRENT:
        return ()
    if arch == COMPRESSED:
        return compressed_caches(shape, keys)
    slides = window.layers if window is not None else (False,) * shape.layers
    rows = _RowWidths(shape, slides, latent=latent)
    owners = _kv_owners(meta, shape, keys)
    if window is not None:
        full = tuple(i for i in owners if not slides[i])
        sliding = tuple(i for i in owners if slides[i])
        return rows.cache(CacheKind.BASE, full), rows.cache(CacheKind.SWA, sliding, window=window.tokens)
    if arch in SPARSE_LATENT or arch == SPARSE:
        return rows.cache(CacheKind.MAIN, owners), _indexer(meta, shape, keys, owners, latent=latent)
    if arch == ROUTED:
        return (rows.with_router(owners),)
    return (rows.cache(CacheKind.KV, owners),)


def _kv_owners(meta: GgufMeta, shape: ModelShape, keys: KeyReader) -> tuple[int, ...]:
    """Indices of the layers that have KV rows of their own.

    A layer without KV heads still owns (empty) rows in a model that is not a hybrid; without flash attention they
    are padded like the others.
    """
    arch = meta.architecture
    last = shape.main_layers if arch in NEXTN_WITHOUT_KV else shape.layers
    if arch == "gemma3n":
        last = min(last, GEMMA3N_OWNERS)
    elif arch == "gemma4":
        last = max(last - keys.number("attention.shared_kv_layers"), 0)
    if arch in HYBRID and arch not in HYBRID_EVERYWHERE:
        recurrent = recurrent_layers(meta, shape, keys)
        mixers = (i for i in range(last) if arch not in HYBRID_BY_HEADS_AND_FF or shape.feed_forward[i] == 0)
        return tuple(i for i in mixers if not recurrent[i])
    return tuple(range(last))


def _has_latent_keys(keys: KeyReader) -> bool:
    return keys.number("attention.key_length_mla") > 0 and keys.number("attention.value_length_mla") > 0


def _indexer(meta: GgufMeta, shape: ModelShape, keys: KeyReader, owners: tuple[int, ...], *, latent: bool) -> CacheRows:
    """One head a layer by which sparse attention chooses; K only where the main cache has no V either."""
    if meta.architecture == SPARSE:
        lead = keys.number("leading_dense_block_count")
        layers = tuple(i for i in owners if i >= lead)
    else:
        full = keys.flags("attention.indexer.types", shape.main_layers) if meta.architecture == "glm-dsa" else None
        layers = tuple(i for i in owners if full is None or full[i])
    width = keys.number("attention.indexer.key_length")
    value = 0 if latent else shape.value_length
    count = len(layers)
    return CacheRows(CacheKind.INDEXER, layers, (width,) * count, (value,) * count, value)


class _RowWidths:
    """Widths of K and V rows of any layer of one model."""

    def __init__(self, shape: ModelShape, slides: tuple[bool, ...], *, latent: bool) -> None:
        self._shape = shape
        self._keys = tuple(
            heads * (shape.key_length_swa if swa else shape.key_length)
            for heads, swa in zip(shape.heads_kv, slides, strict=True)
        )
        self._values = tuple(
            0 if latent else heads * (shape.value_length_swa if swa else shape.value_length)
            for heads, swa in zip(shape.heads_kv, slides, strict=True)
        )

    def cache(self, kind: CacheKind, layers: tuple[int, ...], *, window: int | None = None) -> CacheRows:
        return CacheRows(
            kind,
            layers,
            tuple(self._keys[i] for i in layers),
            tuple(self._values[i] for i in layers),
            max(self._values, default=0),
            window,
        )

    def with_router(self, layers: tuple[int, ...]) -> CacheRows:
        """One more layer, with a single KV head, that chooses adapters (graniteswitch)."""
        shape = self._shape
        return CacheRows(
            CacheKind.KV,
            (*layers, shape.layers),
            (*(self._keys[i] for i in layers), shape.key_length),
            (*(self._values[i] for i in layers), shape.value_length),
            max((*self._values, shape.value_length)),
        )

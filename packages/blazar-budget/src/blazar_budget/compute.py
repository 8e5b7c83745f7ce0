"""The engine's scratch buffers, as an interval.

What is in them: the attention masks (one number per cell and token of the micro-batch), the widest moment of the
computation (:mod:`blazar_budget.widths`), without flash attention the scores of one layer, and the logits of one token
per slot. How the interval was chosen: see the package's README; it holds for at least 95 % of all measured rows.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from blazar_budget.architectures import HYBRID, NO_CACHE
from blazar_budget.buffers import CacheBuffer
from blazar_budget.cache_types import CacheType
from blazar_budget.kv import KvCache
from blazar_budget.memory import plan_memory
from blazar_budget.offload import HOST, LayerMap
from blazar_budget.rows import CacheKind
from blazar_budget.shape import KeyReader
from blazar_budget.widths import Widths, find_widths
from blazar_gguf import GgufMeta

_NUMBER: Final = 4
"""f32."""
_HALF: Final = 2
"""f16: masks with flash attention."""
_LOOSE_NUMBERS: Final = 64
"""Positions, indices and padding, per token."""
_COPIES: Final = 4
"""Copies of the inputs while several accelerators work in turns (``GGML_SCHED_MAX_COPIES``)."""
_KEEPS_FLASH: Final = frozenset({"kimi-linear", "qwen3next", "qwen35", "qwen35moe"})
"""Hybrids in which flash attention was never dropped."""
_SHARING: Final = frozenset({"gemma3n", "gemma4"})
"""Layers read other layers' rows, so a device may need a mask for a cache it holds no part of."""
_TABLE: Final = "token_embd.weight"


@dataclass(frozen=True, slots=True)
class ComputeEstimate:
    """Bytes of scratch buffers on one device.

    Attributes:
        low: it was never less, in 95 % of what was measured.
        likely: what is charged: the upper end of what is usual, a tenth above the truth for most models.
        high: it was never more; also counts what happens on some hosts only (several accelerators that work in turns,
            attention that ends up on another device than its cache).
    """

    low: int
    likely: int
    high: int


def estimate_compute(
    meta: GgufMeta, kv: KvCache, layers: LayerMap, devices: Sequence[str], *, kv_on_host: bool = False
) -> Mapping[str, ComputeEstimate]:
    """Return the scratch buffers of each device and of the host.

    Args:
        meta: the model's header.
        kv: its cache, which carries cells, slots and flash attention.
        layers: where layers live.
        devices: accelerators that hold something.
        kv_on_host: ``-nkvo``.
    """
    model = _Model(meta, kv, layers, kv_on_host=kv_on_host)
    return {name: model.on_device(name) for name in (*devices, HOST)}


class _Model:
    """The parts the estimates of one launch are put together from; all in bytes."""

    def __init__(self, meta: GgufMeta, kv: KvCache, layers: LayerMap, *, kv_on_host: bool) -> None:
        plan = plan_memory(meta)
        self._kv = kv
        self._layers = layers
        self._kv_on_host = kv_on_host
        self._widths: Widths = find_widths(meta, plan)
        self._tokens = min(kv.layout.ubatch, max(kv.total_cells, 1))
        self._heads = max(plan.shape.heads, default=0)
        self._embedding = plan.shape.embedding
        self._encoder = meta.architecture in NO_CACHE
        self._interleaved = meta.architecture in HYBRID and any(cache.layers for cache in kv.caches)
        self._indexer_heads = KeyReader(meta).number("attention.indexer.head_count")
        self._logits = kv.layout.slots * _vocabulary(meta) * _NUMBER
        self._filled = [cache for cache in kv.caches if cache.layers]
        self._shared = meta.architecture in _SHARING
        self._architecture = meta.architecture
        places = {*layers.layers}
        self._split = len(places) > 1 or kv_on_host
        # with every layer on one of several accelerators the engine lets them work on different batches at once
        self._takes_turns = len(places) > 1 and HOST not in places and not kv_on_host

    def on_device(self, name: str) -> ComputeEstimate:
        held = {index for index, device in enumerate(self._layers.layers) if device == name}
        if held:
            return self._computing(held, host=name == HOST)
        if name == HOST:
            return self._feeding()
        # the output matrix alone
        high = self._logits + self._per_token(8 * self._embedding + 2 * self._widths.inputs)
        return ComputeEstimate(0, high, high)

    def _computing(self, held: Collection[int], *, host: bool) -> ComputeEstimate:
        """A device that runs layers."""
        caches = [c for c in self._filled if host or self._shared or any(layer in held for layer in c.layers)]
        flash = self._kv.settings.flash
        masks = self._masks(caches, _HALF if flash else _NUMBER)
        state = self._kv.layout.slots * self._widths.per_slot * _NUMBER
        peak = self._per_token(self._widths.high + _LOOSE_NUMBERS) + self._logits + 2 * state
        extras = self._indexer(caches) + self._brought_over(held)
        scores = self._scores(caches)
        unflashed = 2 * self._masks(caches, _NUMBER) + scores + peak + extras
        usual = masks + peak + self._widened(caches) + extras
        likely = unflashed if not flash or self._drops_flash() else usual
        turns = (_COPIES - 1) * masks if self._takes_turns else 0
        high = max(likely + turns, unflashed if self._interleaved and self._split else 0)
        low = self._per_token(self._widths.low) + self._least_mask(caches)
        if not flash:
            low = max(low, masks // 2 + scores)
        return ComputeEstimate((low // 2 if self._split else low) * 9 // 10, likely, high)

    def _feeding(self) -> ComputeEstimate:
        """A host that only prepares inputs for devices, and with ``-nkvo`` attends as well."""
        masks = self._masks(self._filled, _HALF if self._kv.settings.flash else _NUMBER)
        likely = masks + self._per_token(2 * self._embedding + 2 * self._widths.inputs)
        high = likely + masks + self._per_token(self._embedding)
        if self._kv_on_host:
            attention = self._per_token(self._widths.attention)
            likely, high = likely + attention, high + attention
            if self._drops_flash():
                likely, high = (
                    likely + masks + self._scores(self._filled),
                    high + 2 * masks + self._scores(self._filled),
                )
        turns = (_COPIES - 1) * masks if self._takes_turns else 0
        return ComputeEstimate(self._least_mask(self._filled) * 9 // 10, likely, high + turns)

    def _drops_flash(self) -> bool:
        """True when the engine will give up flash attention because it lands on another device than its cache.

        Measured for hybrids with separate attention layers: where the last layer on the host attends and the next,
        on a device, is recurrent; and with ``-nkvo``, where layers are on devices and the cache is not.
        """
        if not self._interleaved or self._architecture in _KEEPS_FLASH:
            return False
        if self._kv_on_host:
            return any(device != HOST for device in self._layers.layers)
        attending = {layer for cache in self._filled for layer in cache.layers}
        recurrent = {layer for state in self._kv.states for layer in state.layers}
        both = attending & recurrent
        return any(
            before == HOST != after and i in attending - both and i + 1 in recurrent - both
            for i, (before, after) in enumerate(pairwise(self._layers.layers))
        )

    def _scores(self, caches: Sequence[CacheBuffer]) -> int:
        """Attention scores of one layer, which exist as a whole only without flash attention."""
        return self._per_token(self._heads * max((cache.cells for cache in caches), default=0))

    def _least_mask(self, caches: Sequence[CacheBuffer]) -> int:
        """The mask that is there in any case: the smallest, and none where attention runs on the host."""
        if self._kv_on_host or self._shared:
            return 0
        return min((self._masks([cache], _HALF) for cache in caches), default=0)

    def _widened(self, caches: Sequence[CacheBuffer]) -> int:
        """Copies in f16 of one layer's f32 rows, which flash attention wants."""
        settings = self._kv.settings
        found = 0
        for cache in caches:
            keys = max(cache.key_bytes, default=0) if settings.type_k is CacheType.F32 else 0
            values = max(cache.value_bytes, default=0) if settings.type_v is CacheType.F32 else 0
            found = max(found, (keys + values) // 2)
        return found

    def _masks(self, caches: Sequence[CacheBuffer], element: int) -> int:
        cells = sum(cache.cells for cache in caches)
        if self._encoder:
            cells = self._tokens
        return cells * self._tokens * element

    def _indexer(self, caches: Sequence[CacheBuffer]) -> int:
        """Scores by which sparse attention chooses, for each of its heads."""
        cells = max((c.cells for c in caches if c.kind is CacheKind.INDEXER and c.layers), default=0)
        if any(c.v_bytes for c in caches if c.kind is CacheKind.INDEXER):
            # minimax-m3 chooses blocks only where every slot has a stream of its own
            alone = self._kv.layout.streams == self._kv.layout.slots
            return self._per_token((2 * self._indexer_heads + 1) * cells) if alone else 0
        return self._per_token(cells + 2 * self._embedding) if cells else 0

    def _brought_over(self, held: Collection[int]) -> int:
        """What a device copies from the host: inputs for its layers, and with ``-nkvo`` the rows of one layer."""
        if not self._split:
            return 0
        inputs = self._per_token(2 * self._widths.inputs)
        if not self._kv_on_host:
            return inputs
        return inputs + 2 * max((layer.kv_bytes for layer in self._kv.layers if layer.layer in held), default=0)

    def _per_token(self, numbers: int) -> int:
        return numbers * self._tokens * _NUMBER


def _vocabulary(meta: GgufMeta) -> int:
    """Tokens of the vocabulary, from the list or from the token table's shape."""
    if meta.vocab_size:
        return meta.vocab_size
    table = next((t for t in meta.tensors if t.name == _TABLE), None)
    return table.dims[1] if table is not None and len(table.dims) > 1 else 0

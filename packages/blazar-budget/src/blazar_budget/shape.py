"""The sizes of a model as the engine reads them from its header: heads, widths and layers, one entry per layer.

Only raw keys are read here, by the engine's rules (llama.cpp b10434, ``load_hparams``):

1. Layers are ``block_count``; next-token-prediction blocks are among them, loops multiply them (``num_loops``).
2. ``head_count``, ``head_count_kv`` and ``feed_forward_length`` are one number or one per layer; without
   ``head_count_kv`` every layer has as many KV heads as heads.
3. Head sizes are ``key_length`` / ``value_length``, else ``embedding_length / head_count[0]``; all are 0 when the first
   layer has no heads. Sliding-window layers may have sizes of their own (``..._swa``).

The engine refuses files whose types or array lengths are off. Here such a file still gets numbers, on the high side,
and a note; see :attr:`ModelShape.doubts`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from blazar_budget.architectures import BOTH_WAYS, LOOPED
from blazar_gguf import GgufMeta

MAX_LAYERS: Final = 512
"""The engine aborts on more (``LLAMA_MAX_LAYERS``)."""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Sizes that decide what a cache costs. Per-layer tuples have one entry for each layer, loops included.

    Attributes:
        architecture: ``general.architecture``.
        blocks: ``block_count``: layers whose weights are stored.
        loops: how often the blocks are run through.
        nextn: trailing next-token-prediction blocks, included in ``blocks``.
        embedding: width of the residual stream.
        heads, heads_kv, feed_forward: per layer.
        key_length, value_length: elements of a head in ordinary layers.
        key_length_swa, value_length_swa: the same in sliding-window layers.
        doubts: why the figures may not be the engine's; empty when they are.
    """

    architecture: str
    blocks: int
    loops: int
    nextn: int
    embedding: int
    heads: tuple[int, ...]
    heads_kv: tuple[int, ...]
    feed_forward: tuple[int, ...]
    key_length: int
    value_length: int
    key_length_swa: int
    value_length_swa: int
    doubts: tuple[str, ...] = ()

    @property
    def layers(self) -> int:
        """Layers as the engine counts them, with loops and next-token-prediction blocks."""
        return len(self.heads)

    @property
    def main_layers(self) -> int:
        """Layers of the main model, without next-token-prediction blocks."""
        return max(self.layers - self.nextn, 0)


class KeyReader:
    """Reads ``<architecture>.*`` keys and keeps note of what the engine would not have accepted.

    Args:
        meta: the header.
    """

    def __init__(self, meta: GgufMeta) -> None:
        self._meta = meta
        self.doubts: list[str] = []

    def has(self, suffix: str) -> bool:
        """True when the file has the key."""
        return self._meta.arch(suffix) is not None

    def number(self, suffix: str, default: int = 0) -> int:
        """A number that is one for the whole model; of an array the largest, so as not to estimate low."""
        value = self._meta.arch(suffix)
        if value is None:
            return default
        if isinstance(value, tuple):
            self.doubts.append(f"{suffix} is an array where one number is expected")
            return max((_whole(item) or 0 for item in value), default=default)
        found = _whole(value)
        if found is None or found < 0:
            self.doubts.append(f"{suffix} is no whole number")
            return default
        return found

    def per_layer(self, suffix: str, layers: int, default: int | tuple[int, ...] = 0) -> tuple[int, ...]:
        """One number for each of ``layers`` layers, whether the file stores one or an array.

        An array of another length makes the engine refuse the file: it is cut, or continued with its largest entry.
        """
        value = self._meta.arch(suffix)
        if value is None:
            return default if isinstance(default, tuple) else (default,) * layers
        if not isinstance(value, tuple):
            return (self.number(suffix),) * layers
        numbers = [max(_whole(item) or 0, 0) for item in value]
        if len(numbers) != layers:
            self.doubts.append(f"{suffix} has {len(numbers)} entries for {layers} layers")
        return tuple(numbers[:layers]) + (max(numbers, default=0),) * (layers - len(numbers))

    def flags(self, suffix: str, layers: int) -> tuple[bool, ...] | None:
        """An array of booleans (or numbers), one per layer; None when the key is absent or no array."""
        if not isinstance(self._meta.arch(suffix), tuple):
            return None
        value = self._meta.arch(suffix)
        flags = tuple(bool(item) for item in value) if isinstance(value, tuple) else ()
        if len(flags) != layers:
            self.doubts.append(f"{suffix} has {len(flags)} entries for {layers} layers")
        return flags[:layers] + (False,) * (layers - len(flags))


def read_shape(meta: GgufMeta) -> ModelShape:
    """Return the sizes the engine would read from this header. Never raises on odd content."""
    keys = KeyReader(meta)
    blocks = keys.number("block_count")
    if not 1 <= blocks <= MAX_LAYERS:
        keys.doubts.append(f"block_count is {blocks}; the engine aborts unless it is 1 to {MAX_LAYERS}")
        blocks = min(max(blocks, 0), MAX_LAYERS)
    loops = _loops(keys, meta.architecture, blocks)
    heads = keys.per_layer("attention.head_count", blocks)
    heads_kv = keys.per_layer("attention.head_count_kv", blocks, heads)
    feed_forward = keys.per_layer("feed_forward_length", blocks)
    embedding = keys.number("embedding_length")
    first = heads[0] if heads else 0
    size = _head_sizes(keys, embedding, first)
    key_length, value_length = size("attention.key_length"), size("attention.value_length")
    return ModelShape(
        architecture=meta.architecture,
        blocks=blocks,
        loops=loops,
        nextn=min(keys.number("nextn_predict_layers"), blocks),
        embedding=embedding,
        heads=heads * loops,
        heads_kv=heads_kv * loops,
        feed_forward=feed_forward * loops,
        key_length=key_length,
        value_length=value_length,
        key_length_swa=keys.number("attention.key_length_swa", key_length) if first else 0,
        value_length_swa=keys.number("attention.value_length_swa", value_length) if first else 0,
        doubts=tuple(keys.doubts),
    )


def read_context_length(meta: GgufMeta) -> int:
    """Tokens the model was trained for; 0 when the file does not say."""
    return KeyReader(meta).number("context_length")


def is_causal(meta: GgufMeta) -> bool:
    """True when tokens attend only to what came before."""
    return meta.architecture not in BOTH_WAYS and KeyReader(meta).number("attention.causal", 1) != 0


def _loops(keys: KeyReader, architecture: str, blocks: int) -> int:
    """``num_loops``, which only loop architectures read."""
    if architecture != LOOPED:
        return 1
    loops = keys.number("num_loops", 1)
    if loops < 1 or loops * blocks > MAX_LAYERS:
        keys.doubts.append(f"num_loops is {loops}; the engine aborts on that")
        loops = min(max(loops, 1), max(MAX_LAYERS // max(blocks, 1), 1))
    return loops


def _head_sizes(keys: KeyReader, embedding: int, first_heads: int) -> Callable[[str], int]:
    def size(suffix: str) -> int:
        if not first_heads:
            return 0
        return keys.number(suffix, embedding // first_heads)

    return size


def _whole(value: object) -> int | None:
    """The value as an integer; None for what is none (booleans count as 0 and 1, as in pattern arrays)."""
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None

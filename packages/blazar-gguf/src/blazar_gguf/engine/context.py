"""What happens after the tensors are loaded: building the compute graph, which makes assertions of its own."""

from typing import Final

from blazar_gguf.engine.names import names
from blazar_gguf.engine.objection import abortion
from blazar_gguf.meta import GgufMeta
from blazar_gguf.types import LoadPrediction

_TENSOR_ALIGNMENT: Final = 32
"""Bytes; a buffer that does not start at a multiple of this is an assertion in ggml."""

_ENCODER_DECODERS: Final = frozenset({"t5"})

_EQUAL_HEADS: Final = names("equal-heads")
"""Architectures whose graph asserts that key and value heads have the same size."""

_WITHOUT_ROPE: Final = names("without-rope")
"""Architectures that do not rotate, whatever ``rope.dimension_count`` says."""


def check_context(meta: GgufMeta) -> LoadPrediction | None:
    """Assertions of the start-up that follow from the header."""
    if meta.architecture in _ENCODER_DECODERS:
        return abortion(
            "encoder-decoder", "the engine's start-up probe decodes without encoding, which aborts on this architecture"
        )
    first = meta.data_offset + min((t.offset for t in meta.tensors), default=0)
    if meta.alignment < _TENSOR_ALIGNMENT and first % _TENSOR_ALIGNMENT:
        return abortion(
            "alignment", f"tensor data start at byte {first:,}; the engine asserts a multiple of {_TENSOR_ALIGNMENT}"
        )
    if meta.architecture in _EQUAL_HEADS and meta.key_length != meta.value_length:
        return abortion("head-sizes", f"key heads have {meta.key_length} elements and value heads {meta.value_length}")
    objection = _check_rope(meta)
    if objection is not None:
        return objection
    return _check_gemma4(meta) if meta.architecture == "gemma4" else None


def _check_rope(meta: GgufMeta) -> LoadPrediction | None:
    """Rotary embeddings turn pairs of elements within a head."""
    if meta.architecture in _WITHOUT_ROPE or not any(meta.head_counts[:1]):
        return None
    rot = meta.arch_int("rope.dimension_count", meta.key_length)
    if rot % 2 or (rot > meta.key_length and not meta.is_latent):
        return abortion(
            "rope-dimensions",
            f"rope.dimension_count is {rot}; the engine asserts an even number up to the {meta.key_length} of a head",
        )
    return None


def _check_gemma4(meta: GgufMeta) -> LoadPrediction | None:
    """Layers without a cache of their own read the last two that have one: a sliding one, then a full one."""
    shared = meta.arch_int("attention.shared_kv_layers")
    own = meta.block_count - shared
    if shared == 0:
        return None
    if own < 2:
        return abortion(
            "shared-kv", f"attention.shared_kv_layers leaves {max(own, 0)} blocks with a cache; the engine asserts 2"
        )
    return None

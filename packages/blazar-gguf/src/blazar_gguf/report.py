"""A model in a dozen lines, for people."""

from collections.abc import Iterator
from typing import Final

from blazar_gguf.meta import GgufMeta
from blazar_gguf.types import AttentionClass, FileKind

_KIB: Final = 1024
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB")


def human_bytes(size: int) -> str:
    """``246587904`` as ``235.2 MiB``."""
    value = float(size)
    for unit in _UNITS:
        if value < _KIB or unit == _UNITS[-1]:
            return f"{size} bytes" if unit == _UNITS[0] else f"{value:.1f} {unit}"
        value /= _KIB
    raise AssertionError("the last unit returns")


def human_count(count: int) -> str:
    """``268098176`` as ``268.1 M``."""
    for limit, letter in ((10**12, "T"), (10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= limit:
            return f"{count / limit:.1f} {letter}"
    return str(count)


def _span(values: tuple[int, ...]) -> str:
    """One number, or the distinct ones of a per-layer array."""
    distinct = sorted(set(values))
    if len(distinct) <= 1:
        return str(distinct[0]) if distinct else "0"
    return "/".join(map(str, distinct)) + " by layer"


def facts(meta: GgufMeta) -> Iterator[tuple[str, str]]:
    """What there is to say about a file, as label and text; tensors only when the header is complete."""
    yield "file", meta.path or "in memory"
    if meta.name:
        yield "name", meta.name
    yield "kind", meta.kind
    yield "architecture", meta.architecture or "missing"
    if meta.complete:
        yield from _size_facts(meta)
    yield "file size", human_bytes(meta.file_bytes)
    if meta.kind is FileKind.PROJECTOR:
        yield from _projector_facts(meta)
    elif meta.kind is FileKind.MODEL and meta.block_count:
        yield from _shape_facts(meta)
    if meta.complete:
        yield "chat templates", ", ".join(meta.chat_templates) or "none"
    yield "container", f"GGUF {meta.version}, {'big' if meta.big_endian else 'little'}-endian, {meta.n_tensors} tensors"


def _size_facts(meta: GgufMeta) -> Iterator[tuple[str, str]]:
    active = f", {human_count(meta.active_params)} active" if meta.active_params != meta.n_params else ""
    yield "parameters", human_count(meta.n_params) + active
    if meta.n_params:
        yield "quantisation", f"{meta.quant_label or 'unknown'}, {meta.bits_per_weight:.2f} bits per weight"
    yield "weights", human_bytes(meta.tensor_bytes)


def _shape_facts(meta: GgufMeta) -> Iterator[tuple[str, str]]:
    yield "context", f"{meta.context_length:,} tokens"
    loops = f" x {meta.num_loops} loops" if meta.num_loops > 1 else ""
    yield "layers", f"{meta.block_count}{loops}, {meta.embedding_length:,} wide"
    yield "vocabulary", f"{meta.vocab_size:,} tokens"
    yield "attention", _attention(meta)
    if meta.expert_count:
        yield "experts", f"{meta.expert_count}, {meta.expert_used_count} used per token"
    if meta.pooling_type is not None:
        yield "pooling", meta.pooling_type.name.lower()


def _attention(meta: GgufMeta) -> str:
    heads = f"{_span(meta.head_counts)} heads, key-value heads: {_span(meta.head_counts_kv)}"
    match meta.attention_class:
        case AttentionClass.WINDOW:
            sliding = sum(meta.window_layers)
            return f"{heads}; {sliding} of {meta.layer_count} layers keep {meta.sliding_window:,} tokens"
        case AttentionClass.HYBRID:
            return f"{heads}; {sum(meta.recurrent_layers)} of {meta.layer_count} layers are recurrent"
        case AttentionClass.RECURRENT:
            return "none; every layer is recurrent"
        case AttentionClass.LATENT:
            return f"{heads}; compressed to rank {meta.kv_lora_rank}"
        case AttentionClass.FULL | AttentionClass.SPARSE | AttentionClass.NONE:
            return f"{heads} ({meta.attention_class})"


def _projector_facts(meta: GgufMeta) -> Iterator[tuple[str, str]]:
    can = [name for name in ("vision", "audio", "speech") if getattr(meta.modalities, name)]
    yield "encodes", ", ".join(can) or "nothing"
    yield "projector", meta.modalities.projector_type or "unknown"

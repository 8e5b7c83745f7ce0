"""Headers of models without files, for tests of whatever sits on top. Nothing here is used at run time."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from blazar_gguf import GgufMeta, TensorInfo
from blazar_gguf.ggml_types import TYPES_BY_NAME

Described: TypeAlias = Sequence[tuple[str, Sequence[int], str]]
"""Tensors as name, elements per dimension (fastest first), and type name."""

_ALIGNMENT = 32
_ENGINE_FLAGS: Mapping[str, str] = {
    "-c": "ctx",
    "-np": "parallel",
    "-ub": "ubatch",
    "-ctk": "type_k",
    "-ctv": "type_v",
    "-fa": "flash_attn",
}
_PLACEMENT_FLAGS = frozenset({"-ngl", "--n-cpu-moe", "-ot"})


def lay_out(described: Described) -> Sequence[TensorInfo]:
    """Return tensor infos one after the other, as a file has them."""
    placed: list[TensorInfo] = []
    offset = 0
    for name, dims, kind in described:
        tensor = TensorInfo(name, tuple(dims), TYPES_BY_NAME[kind].id, offset)
        placed.append(tensor)
        offset += -(-tensor.n_bytes // _ALIGNMENT) * _ALIGNMENT
    return placed


def made_up(arch: str, keys: Mapping[str, object], tensors: Sequence[TensorInfo] = ()) -> GgufMeta:
    """Return a header with these ``<arch>.…`` keys."""
    fields = {"general.architecture": arch} | {f"{arch}.{key}": value for key, value in keys.items()}
    return GgufMeta.from_fields(fields, tensors)


def plain_decoder(
    *,
    arch: str = "llama",
    layers: int = 32,
    ctx: int = 131_072,
    embedding: int = 4096,
    feed_forward: int = 14_336,
    heads: int = 32,
    heads_kv: int = 8,
    vocab: int = 128_256,
    kind: str = "Q4_K",
    keys: Mapping[str, object] | None = None,
) -> GgufMeta:
    """Return a plain decoder; eight billion parameters in 4.2 GiB unless told otherwise.

    Args:
        arch: architecture; one whose tensors are named like llama's.
        layers: ``block_count``.
        ctx: training length in tokens.
        embedding: width of the residual stream.
        feed_forward: width of the feed-forward part.
        heads: query heads.
        heads_kv: KV heads.
        vocab: tokens of the vocabulary.
        kind: type of all matrices.
        keys: further ``<arch>.…`` keys.
    """
    sizes: dict[str, object] = {
        "context_length": ctx,
        "block_count": layers,
        "embedding_length": embedding,
        "feed_forward_length": feed_forward,
        "attention.head_count": heads,
        "attention.head_count_kv": heads_kv,
        "vocab_size": vocab,
    }
    row = embedding // heads * heads_kv
    described: list[tuple[str, Sequence[int], str]] = [
        ("token_embd.weight", (embedding, vocab), kind),
        ("output_norm.weight", (embedding,), "F32"),
        ("output.weight", (embedding, vocab), kind),
    ]
    for layer in range(layers):
        block = f"blk.{layer}."
        described += [
            (f"{block}attn_norm.weight", (embedding,), "F32"),
            (f"{block}attn_q.weight", (embedding, embedding), kind),
            (f"{block}attn_k.weight", (embedding, row), kind),
            (f"{block}attn_v.weight", (embedding, row), kind),
            (f"{block}attn_output.weight", (embedding, embedding), kind),
            (f"{block}ffn_norm.weight", (embedding,), "F32"),
            (f"{block}ffn_gate.weight", (embedding, feed_forward), kind),
            (f"{block}ffn_up.weight", (embedding, feed_forward), kind),
            (f"{block}ffn_down.weight", (feed_forward, embedding), kind),
        ]
    return made_up(arch, sizes | dict(keys or {}), lay_out(described))


def engine_flags(argv: Sequence[str]) -> Mapping[str, object]:
    """Return the arguments of :func:`blazar_budget.kv_cache` for an engine's command line; placement is left out."""
    found: dict[str, object] = {}
    words = iter(argv)
    for word in words:
        if word in {"-kvu", "-no-kvu"}:
            found["unified"] = word == "-kvu"
        elif word == "--swa-full":
            found["swa_full"] = True
        elif word in _ENGINE_FLAGS:
            value = next(words)
            found[_ENGINE_FLAGS[word]] = int(value) if value.isdigit() else value
        elif word in _PLACEMENT_FLAGS:
            next(words)
    return found

"""What happens after the tensors are loaded: building the compute graph, which makes assertions of its own.

A graph assertion aborts the whole process, so each rule here is about a file that must not be spawned.
"""

from collections.abc import Iterator
from typing import Final

from blazar_gguf.engine.keys import architectures
from blazar_gguf.engine.names import names
from blazar_gguf.engine.objection import abortion
from blazar_gguf.meta import GgufMeta
from blazar_gguf.types import LoadPrediction

_TENSOR_ALIGNMENT: Final = 32
"""Bytes; a buffer that does not start at a multiple of this is an assertion in ggml."""

_ENCODER_DECODERS: Final = frozenset({"t5"})
_EQUAL_HEADS: Final = names("equal-heads")
_WHOLE_HEAD_ROPE: Final = names("whole-head-rope")
_WITHOUT_ROPE: Final = names("without-rope")
_COMPANIONS: Final = names("companions")
_LATENT: Final = frozenset({"deepseek2", "mistral4", "deepseek32", "glm-dsa", "kimi-linear", "minicpm3"})
_CONV_BIAS: Final = frozenset({"falcon-h1", "granitehybrid", "nemotron_h", "nemotron_h_moe"})
"""Architectures in which the bias of the convolution may be absent when loading and may not when computing."""

_GATING: Final = frozenset({1, 2, 3, 4})
"""Values of ``expert_gating_func``: softmax, sigmoid, softmax over weights, square root of softplus."""

_DEFAULT_GATING: Final = names("default-gating")
"""Architectures that choose one themselves when the key is absent or 0."""

_OPTIONAL_DENSE: Final = frozenset({"mimo2", "step35"})
"""Architectures whose blocks have a dense feed-forward part unless they have experts, which only the graph knows."""

_DELTA: Final = frozenset({"qwen3next", "qwen35", "qwen35moe"})


def check_early(meta: GgufMeta) -> LoadPrediction | None:
    """Assertions made while the tensors are being asked for, before any is missed."""
    return next((abortion(rule, reason) for holds, rule, reason in _early(meta) if holds), None)


def _early(m: GgufMeta) -> Iterator[tuple[bool, str, str]]:
    """Condition, rule and reason."""
    arch = m.architecture
    yield (
        arch in names("experts-needed") and not m.expert_count,
        "expert-count",
        f"{arch} asserts that there are experts",
    )
    inner = m.arch_int("ssm.inner_size")
    yield (
        arch in {"jamba", "granitehybrid"} and inner != 2 * m.embedding_length,
        "ssm-size",
        f"ssm.inner_size is {inner}, the engine asserts twice the embedding length of {m.embedding_length}",
    )
    if arch in {"deepseek2", "mistral4"}:
        key = m.arch_int("attention.key_length_mla") if m.is_latent else m.key_length
        rot = m.arch_int("rope.dimension_count", m.key_length)
        yield (
            key - rot < 1,
            "rope-dimensions",
            f"all {key} elements of a key head are rotated; the engine asserts some rest",
        )


def check_context(meta: GgufMeta) -> LoadPrediction | None:
    """Assertions of the start-up once every tensor is there."""
    return next((abortion(rule, reason) for holds, rule, reason in _late(meta) if holds), None)


def _late(m: GgufMeta) -> Iterator[tuple[bool, str, str]]:
    arch = m.architecture
    yield (
        arch in _ENCODER_DECODERS,
        "encoder-decoder",
        "the server decodes without encoding, which aborts on this architecture unless a warm-up ran before",
    )
    yield arch in _COMPANIONS, "companion-model", f"a {arch} model asserts that it runs beside the model it drafts for"
    first = m.data_offset + min((t.offset for t in m.tensors), default=0)
    yield (
        m.alignment < _TENSOR_ALIGNMENT and first % _TENSOR_ALIGNMENT != 0,
        "alignment",
        f"tensor data start at byte {first:,}; the engine asserts a multiple of {_TENSOR_ALIGNMENT}",
    )
    yield (
        arch in _EQUAL_HEADS and m.key_length != m.value_length,
        "head-sizes",
        f"key heads have {m.key_length} elements and value heads {m.value_length}; the engine asserts that they agree",
    )
    yield from _late_experts(m)
    yield from _late_attention(m)
    yield from _late_recurrent(m)
    yield from _late_sharing(m)
    yield from _late_tensors(m)


def _late_experts(m: GgufMeta) -> Iterator[tuple[bool, str, str]]:
    """How experts are chosen: a number the graph must know."""
    reads = any(rule.suffix == "expert_gating_func" for rule in architectures().get(m.architecture, ()))
    if not reads or not m.expert_count:
        return
    given = m.arch_int("expert_gating_func")
    yield (
        given not in _GATING and not (given == 0 and m.architecture in _DEFAULT_GATING),
        "expert-gating",
        f"expert_gating_func is {given}; the engine aborts on a number it does not know",
    )


def _late_sharing(m: GgufMeta) -> Iterator[tuple[bool, str, str]]:
    """Blocks of gemma4 without a cache read another's of their kind: that of the last but one block, or the last."""
    shared = m.arch_int("attention.shared_kv_layers") if m.architecture == "gemma4" else 0
    if not shared:
        return
    own = m.block_count - shared
    yield (
        own < 2,
        "shared-kv",
        f"attention.shared_kv_layers leaves {max(own, 0)} blocks with a cache; the engine asserts two",
    )
    wrong = [
        i
        for i in range(own, m.layer_count)
        if m.window_layers[own - (2 if m.window_layers[i] else 1)] != m.window_layers[i]
    ]
    yield bool(wrong), "shared-kv", f"block {wrong[:1]} shares a cache, and none of its kind is there to be shared"


def _late_tensors(m: GgufMeta) -> Iterator[tuple[bool, str, str]]:
    """Tensors the loader does not insist on and the graph uses all the same."""
    there = frozenset(t.name for t in m.tensors)
    wanted: list[str] = []
    trunk = max(0, m.layer_count - m.nextn_predict_layers)
    for i, recurrent in enumerate(m.recurrent_layers[:trunk]):
        if m.architecture == "rwkv6" and f"blk.{i}.time_mix_lerp_w.weight" not in there:
            wanted.append(f"blk.{i}.time_mix_lerp_fused.weight")
        if m.architecture in _CONV_BIAS and recurrent:
            wanted.append(f"blk.{i}.ssm_conv1d.bias")
        if m.architecture in _DELTA and recurrent and f"blk.{i}.ssm_in.weight" not in there:
            wanted += [f"blk.{i}.attn_qkv.weight", f"blk.{i}.attn_gate.weight"]
        if m.architecture == "phi3" and f"blk.{i}.attn_qkv.weight" not in there:
            wanted += [f"blk.{i}.attn_{part}.weight" for part in ("q", "k", "v")]
        if m.architecture in _OPTIONAL_DENSE and f"blk.{i}.ffn_gate_inp.weight" not in there:
            wanted += [f"blk.{i}.ffn_{part}.weight" for part in ("up", "down")]
    missing = [name for name in wanted if name not in there]
    yield bool(missing), "tensor-missing", f"tensor {missing[:1]} is missing, and the engine uses it unchecked"


def _late_attention(m: GgufMeta) -> Iterator[tuple[bool, str, str]]:
    arch, heads = m.architecture, m.head_counts
    if heads and heads[0] and arch not in _WITHOUT_ROPE:
        rot = m.arch_int("rope.dimension_count", m.key_length)
        yield (
            bool(rot % 2) or (rot > m.key_length and not m.is_latent),
            "rope-dimensions",
            f"rope.dimension_count is {rot}; the engine asserts an even number up to the {m.key_length} of a head",
        )
        swa = m.arch_int("rope.dimension_count_swa", rot)
        yield (
            any(m.window_layers) and (bool(swa % 2) or swa > m.key_length_swa),
            "rope-dimensions",
            f"rope.dimension_count_swa is {swa}; the engine asserts an even number up to {m.key_length_swa}",
        )
        yield (
            arch in _WHOLE_HEAD_ROPE and rot != m.value_length,
            "rope-dimensions",
            f"rope.dimension_count is {rot}; the engine asserts the {m.value_length} of a whole head",
        )
    uneven = [(h, kv) for h, kv in zip(heads, m.head_counts_kv, strict=True) if kv and h % kv]
    yield bool(uneven), "head-counts", f"query heads are no multiple of key-value heads: {uneven[:1]}"
    if arch in _LATENT:
        pairs = [(h, kv) for h, kv in zip(heads, m.head_counts_kv, strict=True) if kv or arch != "kimi-linear"]
        odd = [kv for h, kv in pairs if kv != (1 if m.is_latent else h)]
        yield bool(odd), "head-counts", f"head_count_kv is {odd[:1]}, which the cache of this layout does not allow"
    if arch in _LATENT and m.is_latent:
        row = m.kv_lora_rank + m.arch_int("rope.dimension_count", m.key_length)
        yield m.key_length != row, "head-sizes", f"attention.key_length is {m.key_length}, the engine asserts {row}"


def _late_recurrent(m: GgufMeta) -> Iterator[tuple[bool, str, str]]:
    arch, dims = m.architecture, m.recurrent_dims
    names_there = frozenset(t.name for t in m.tensors)
    if arch in _CONV_BIAS:
        bare = [
            i
            for i, recurrent in enumerate(m.recurrent_layers)
            if recurrent and f"blk.{i}.ssm_conv1d.bias" not in names_there
        ]
        yield (
            bool(bare),
            "tensor-missing",
            f"tensor 'blk.{bare[:1]}.ssm_conv1d.bias' is missing, and the engine uses it unchecked",
        )
    if arch in _DELTA:
        value = dims.state_size * dims.time_step_rank
        yield (
            dims.inner_size != value,
            "ssm-size",
            f"ssm.inner_size is {dims.inner_size}, the engine asserts {value} (state_size x time_step_rank)",
        )
        yield (
            dims.group_count == 0 or dims.time_step_rank % dims.group_count != 0,
            "ssm-size",
            f"ssm.time_step_rank is {dims.time_step_rank}, the engine asserts a multiple of {dims.group_count}",
        )
    if arch in {"rwkv6", "rwkv7"}:
        shift = m.arch_int("token_shift_count", 2)
        yield shift != 2, "token-shift", f"token_shift_count is {shift}, the engine asserts 2"
    if arch in {"lfm2", "lfm2moe"}:
        yield (
            dims.shortconv_l_cache < 2,
            "shortconv",
            f"shortconv.l_cache is {dims.shortconv_l_cache}, the engine asserts 2 or more",
        )
    if arch == "plamo2":
        yield dims.group_count != 0, "ssm-size", f"ssm.group_count is {dims.group_count}, the engine asserts 0"

"""The constant state of recurrent layers: which layers have one, and how many numbers it is.

Source: llama.cpp b10434, ``n_embd_r`` / ``n_embd_s`` of its hyper-parameters and the layer filters of its hybrid
memories. State is f32 whatever the cache types, costs the same for any context, and exists once per slot.
"""

from dataclasses import dataclass
from typing import Final

from blazar_budget.architectures import (
    HYBRID,
    HYBRID_BY_HEADS,
    HYBRID_BY_HEADS_AND_FF,
    HYBRID_BY_INTERVAL,
    HYBRID_EVERYWHERE,
    RECURRENT,
)
from blazar_budget.shape import KeyReader, ModelShape
from blazar_gguf import GgufMeta

STATE_BYTES: Final = 4
"""f32."""

_UNGROUPED: Final = frozenset({"mamba", "jamba"})
"""Do not read ``ssm.group_count``."""

_WKV: Final = frozenset({"rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
_DEFAULT_INTERVAL: Final = 4


@dataclass(frozen=True, slots=True)
class StateRows:
    """The state of one model, for one slot.

    Attributes:
        layers: indices of the layers that have one.
        r_elements: numbers of the convolution or token-shift part, per layer.
        s_elements: numbers of the state proper, per layer.
    """

    layers: tuple[int, ...]
    r_elements: int
    s_elements: int


def recurrent_layers(meta: GgufMeta, shape: ModelShape, keys: KeyReader) -> tuple[bool, ...]:
    """For each layer, True when it carries a state. Next-token-prediction blocks never do."""
    arch = meta.architecture
    if arch in RECURRENT or arch in HYBRID_EVERYWHERE:
        return (True,) * shape.layers
    if arch in HYBRID_BY_HEADS:
        return tuple(heads == 0 for heads in shape.heads_kv)
    if arch in HYBRID_BY_HEADS_AND_FF:
        pairs = zip(shape.heads_kv, shape.feed_forward, strict=True)
        return tuple(h == 0 and f == 0 and i < shape.main_layers for i, (h, f) in enumerate(pairs))
    if arch in HYBRID_BY_INTERVAL:
        given = keys.flags("attention.recurrent_layers", shape.layers)
        interval = keys.number("full_attention_interval", _DEFAULT_INTERVAL) or _DEFAULT_INTERVAL
        pattern = given or tuple((i + 1) % interval != 0 for i in range(shape.layers))
        return tuple(flag and i < shape.main_layers for i, flag in enumerate(pattern))
    return (False,) * shape.layers


def find_state(meta: GgufMeta, shape: ModelShape, keys: KeyReader) -> StateRows | None:
    """Return the state rows, or None for a model without recurrent layers."""
    arch = meta.architecture
    if arch not in RECURRENT and arch not in HYBRID:
        return None
    carrying = tuple(i for i, flag in enumerate(recurrent_layers(meta, shape, keys)) if flag)
    r, s = _state_elements(arch, shape, keys)
    return StateRows(carrying, r, s)


def state_of_unknown(shape: ModelShape, keys: KeyReader) -> StateRows | None:
    """State rows of an architecture nobody described: every layer, if the file has state-space sizes at all."""
    r, s = _mamba_elements(keys, grouped=True)
    return StateRows(tuple(range(shape.layers)), r, s) if r or s else None


def _state_elements(arch: str, shape: ModelShape, keys: KeyReader) -> tuple[int, int]:
    if arch in _WKV:
        shift = keys.number("token_shift_count", 2)
        return shift * shape.embedding, shape.embedding * keys.number("wkv.head_size")
    if arch.startswith("lfm2"):
        return shape.embedding * max(keys.number("shortconv.l_cache") - 1, 0), 0
    if arch == "kimi-linear":
        size, conv = keys.number("kda.head_dim"), keys.number("ssm.conv_kernel")
        heads = shape.heads[0] if shape.heads else 0
        return 3 * (conv - 1 if conv else 3) * heads * size, size * size * heads
    return _mamba_elements(keys, grouped=arch not in _UNGROUPED)


def _mamba_elements(keys: KeyReader, *, grouped: bool) -> tuple[int, int]:
    inner, state = keys.number("ssm.inner_size"), keys.number("ssm.state_size")
    groups = keys.number("ssm.group_count") if grouped else 0
    return max(keys.number("ssm.conv_kernel") - 1, 0) * (inner + 2 * groups * state), state * inner

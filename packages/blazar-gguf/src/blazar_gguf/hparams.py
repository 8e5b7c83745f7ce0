"""Reading the ``<arch>.*`` keys: numbers that may be stored as any integer type, per layer or once for all.

The engine insists on exact types; a reader that only wants to know must not. Wrong types are collected as warnings
by :func:`odd_types`, because each of them is a reason for the engine to refuse the file.
"""

from collections.abc import Mapping
from typing import Final

from blazar_gguf.fields import Fields
from blazar_gguf.types import ValueType
from blazar_gguf.values import Value

MAX_LAYERS: Final = 512
"""The engine aborts on more layers (``LLAMA_MAX_LAYERS``); per-layer tuples never get longer than this."""

MAX_LOOPS: Final = 8
"""Loop counts are clamped to 1..8."""

_U32_KEYS: Final = (
    "context_length",
    "embedding_length",
    "block_count",
    "vocab_size",
    "num_loops",
    "expert_count",
    "expert_used_count",
    "attention.key_length",
    "attention.value_length",
    "attention.kv_lora_rank",
    "attention.q_lora_rank",
    "attention.sliding_window",
    "attention.shared_kv_layers",
    "full_attention_interval",
    "nextn_predict_layers",
    "pooling_type",
    "ssm.conv_kernel",
    "ssm.inner_size",
    "ssm.state_size",
    "ssm.time_step_rank",
    "ssm.group_count",
)
_PER_LAYER_KEYS: Final = ("feed_forward_length", "attention.head_count", "attention.head_count_kv")


def as_int(value: Value | None) -> int | None:
    """The value as an integer if it is one (or an integral float), else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None


class Hparams:
    """The keys of one architecture, without their prefix.

    Args:
        fields: all metadata of the file.
        architecture: the prefix, without the dot.
    """

    __slots__ = ("architecture", "fields")

    def __init__(self, fields: Fields, architecture: str) -> None:
        self.fields = fields
        self.architecture = architecture

    def get(self, suffix: str) -> Value | None:
        """The value of ``<arch>.<suffix>``, or None."""
        return self.fields.get(f"{self.architecture}.{suffix}")

    def integer(self, suffix: str, default: int = 0) -> int:
        """A number that is one for the whole model; the default when it is absent or no number.

        Where a file stores one number per layer, the largest counts: an estimate must not come out low.
        """
        value = self.get(suffix)
        if isinstance(value, tuple):
            numbers = [n for n in map(as_int, value) if n is not None]
            return max(numbers, default=default)
        number = as_int(value)
        return default if number is None or number < 0 else number

    def block_count(self) -> int:
        """``block_count`` as stored."""
        return self.integer("block_count")

    def layers(self) -> int:
        """Length of per-layer tuples: ``block_count``, at most 512."""
        return min(self.block_count(), MAX_LAYERS)

    def per_layer(self, suffix: str, default: tuple[int, ...] | int = 0) -> tuple[int, ...]:
        """One number for each layer, whether the file stores one for all or an array.

        An array of the wrong length (the engine refuses it) is cut, or continued with its last entry.
        """
        n = self.layers()
        value = self.get(suffix)
        number = as_int(value)
        if number is not None:
            return (max(0, number),) * n
        if isinstance(value, tuple) and value:
            # the engine reads arrays of bools as numbers too
            numbers = [max(0, int(item) if isinstance(item, bool) else as_int(item) or 0) for item in value[:n]]
            return tuple(numbers) + (numbers[-1],) * (n - len(numbers)) if numbers else ()
        return default if isinstance(default, tuple) else (default,) * n


def odd_types(fields: Fields, architecture: str) -> list[str]:
    """What is stored in a way the engine refuses, one sentence each."""
    found: list[str] = []
    known: Mapping[str, object] = fields.known
    for suffix in (*_U32_KEYS, *_PER_LAYER_KEYS):
        key = f"{architecture}.{suffix}"
        if key not in known:
            continue
        field = fields.known[key]
        per_layer = suffix in _PER_LAYER_KEYS
        if field.type is ValueType.ARRAY and per_layer:
            found.extend(_odd_array(key, field.element_type, field.count, fields, architecture))
        elif field.type is not ValueType.U32 and field.type is not ValueType.ARRAY:
            found.append(f"{key} is stored as {field.type.label} instead of u32; the engine refuses that")
        elif field.type is ValueType.ARRAY:
            found.append(f"{key} is an array, expected one number")
    layers = as_int(fields.get(f"{architecture}.block_count"))
    if layers is not None and not 0 < layers <= MAX_LAYERS:
        found.append(f"{architecture}.block_count is {layers:,}; the engine aborts unless it is 1 to {MAX_LAYERS}")
    return found


def _odd_array(key: str, element: ValueType | None, count: int, fields: Fields, architecture: str) -> list[str]:
    found = []
    if element not in {ValueType.U32, ValueType.I32}:
        label = element.label if element is not None else "?"
        found.append(f"{key} holds {label} elements instead of u32 or i32; the engine refuses that")
    layers = as_int(fields.get(f"{architecture}.block_count"))
    if layers is not None and count != layers:
        found.append(f"{key} has {count} entries for {layers} layers; the engine refuses that")
    return found

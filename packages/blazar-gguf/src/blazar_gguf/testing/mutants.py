"""A healthy file bent in one place at a time, systematically: every key and every kind of tensor.

Used to compare :func:`blazar_gguf.would_load` with what the engine really does (``scripts/fuzz_engine.py``), and to
keep the recorded verdicts as tests.
"""

import copy
import re
from collections.abc import Callable, Iterator
from operator import methodcaller
from typing import Final

from blazar_gguf.testing.raw import Item, RawField, RawFile, RawTensor
from blazar_gguf.types import ValueType

_INTEGERS: Final = frozenset({ValueType.U32, ValueType.I32, ValueType.U64, ValueType.I64})
_EXTRA_TENSORS: Final = (
    ("blk.0.extra.weight", 128),
    ("blk.0.attn_q.bias", 128),
    ("blk.0.attn_output.bias", 128),
    ("rope_freqs.weight", 16),
    ("blk.0.attn_q.scale", 1),
    ("blk.99.attn_norm.weight", 128),
    ("v.patch.weight", 128),
    ("blk.0.attn_q_norm.weight", 128),
)
_NUMBERS: Final[tuple[tuple[str, Callable[[int], int]], ...]] = (
    ("= 0", lambda _: 0),
    ("= 1", lambda _: 1),
    ("+ 1", lambda n: n + 1),
    ("- 1", lambda n: max(0, n - 1)),
    ("* 2", lambda n: n * 2),
    ("// 2", lambda n: n // 2),
    ("= 7", lambda _: 7),
)


def mutants(healthy: RawFile) -> Iterator[tuple[str, RawFile]]:
    """Yield each bent file with a name that says what was done; names are stable."""
    for one in healthy.fields:
        key = one.key.decode()
        yield f"without {key}", _bent(healthy, methodcaller("drop", key))
        for name, change in _field_changes(healthy, one):
            bent = copy.deepcopy(healthy)
            change(bent.find(key))
            yield f"{key} {name}", bent
    yield from _tensor_mutants(healthy)


def _bent(healthy: RawFile, bend: Callable[[RawFile], None]) -> RawFile:
    bent = copy.deepcopy(healthy)
    bend(bent)
    return bent


def _assign(type_: int, value: Item | list[Item], element_type: int = ValueType.U32) -> Callable[[RawField], None]:
    def change(field: RawField) -> None:
        field.type, field.value, field.element_type = type_, value, element_type

    return change


def _field_changes(healthy: RawFile, one: RawField) -> Iterator[tuple[str, Callable[[RawField], None]]]:
    value = one.value
    if isinstance(value, list):
        yield from _array_changes(one, value)
    elif one.type in _INTEGERS and isinstance(value, int):
        yield "as i32", _assign(ValueType.I32, value)
        yield "as u64", _assign(ValueType.U64, value)
        yield "as f32", _assign(ValueType.F32, float(value))
        yield "as str", _assign(ValueType.STRING, str(value))
        blocks = _block_count(healthy)
        yield "as one per block", _assign(ValueType.ARRAY, [value] * blocks)
        yield "as one per block and one more", _assign(ValueType.ARRAY, [value] * (blocks + 1))
        yield "as one f32 per block", _assign(ValueType.ARRAY, [float(value)] * blocks, ValueType.F32)
        for name, new in _NUMBERS:
            yield name, _assign(ValueType.U32, new(value))
    elif one.type == ValueType.STRING:
        yield "as u32", _assign(ValueType.U32, 1)
        yield "empty", _assign(ValueType.STRING, b"")
        yield "= zzz", _assign(ValueType.STRING, b"zzz")
    else:
        yield "as u32", _assign(ValueType.U32, 1)
        yield "= 0", _assign(one.type, 0)


def _array_changes(one: RawField, value: list[Item]) -> Iterator[tuple[str, Callable[[RawField], None]]]:
    yield "one shorter", _assign(ValueType.ARRAY, value[:-1], one.element_type)
    yield "its first only", _assign(one.element_type, value[0])
    yield "its first twice", _assign(ValueType.ARRAY, [value[0], *value[:-1]], one.element_type)
    yield "as i64", _assign(ValueType.ARRAY, [_whole(item) for item in value], ValueType.I64)
    yield "as f32", _assign(ValueType.ARRAY, [float(_whole(item)) for item in value], ValueType.F32)
    yield (
        "as str",
        _assign(ValueType.ARRAY, [item if isinstance(item, bytes) else str(item) for item in value], ValueType.STRING),
    )


def _whole(item: Item) -> int:
    return int(item) if isinstance(item, int | float) else 0


def _block_count(healthy: RawFile) -> int:
    for one in healthy.fields:
        if one.key.endswith(b".block_count") and isinstance(one.value, int):
            return one.value
    return 1


def _tensor_mutants(healthy: RawFile) -> Iterator[tuple[str, RawFile]]:
    kinds: dict[str, list[str]] = {}
    for tensor in healthy.tensors:
        name = tensor.name.decode()
        kinds.setdefault(re.sub(r"blk\.\d+\.", "blk.N.", name), []).append(name)
    for names in kinds.values():
        for name in dict.fromkeys((names[0], names[-1])):
            yield f"without tensor {name}", _bent(healthy, methodcaller("drop_tensor", name))
        renamed = copy.deepcopy(healthy)
        renamed.tensor(names[0]).name = names[0].replace(".weight", ".wight").encode()
        yield f"tensor {names[0]} misspelt", renamed
        yield f"tensor {names[-1]} of another shape", _bent(healthy, _reshape(names[-1]))
    for name, size in _EXTRA_TENSORS:
        if all(t.name != name.encode() for t in healthy.tensors):
            bent = copy.deepcopy(healthy)
            bent.tensors.append(RawTensor(name.encode(), [size], 0, 0, bytes(4 * size)))
            bent.lay_out(bent.alignment)
            yield f"with tensor {name}", bent


def _reshape(name: str) -> Callable[[RawFile], None]:
    """Turn a matrix round, or halve a vector."""

    def bend(file: RawFile) -> None:
        tensor = file.tensor(name)
        if len(tensor.dims) > 1:
            tensor.dims = tensor.dims[1:] + tensor.dims[:1]
        else:
            tensor.dims = [tensor.dims[0] // 2]
            tensor.data = tensor.data[: len(tensor.data) // 2]
            file.lay_out(file.alignment)

    return bend

import math
import tracemalloc
from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blazar_gguf import GgufError, GgufWriter, Typed, ValueType, parse_metadata, would_load
from blazar_gguf.encoding import PlainValue
from blazar_gguf.testing import TinyShape, tiny_model

_RANGES: Final = {
    ValueType.U8: (0, 2**8 - 1),
    ValueType.I8: (-(2**7), 2**7 - 1),
    ValueType.U16: (0, 2**16 - 1),
    ValueType.I16: (-(2**15), 2**15 - 1),
    ValueType.U32: (0, 2**32 - 1),
    ValueType.I32: (-(2**31), 2**31 - 1),
    ValueType.U64: (0, 2**64 - 1),
    ValueType.I64: (-(2**63), 2**63 - 1),
}


def _elements(kind: ValueType) -> st.SearchStrategy[int | float | bool | str]:
    if kind in _RANGES:
        return st.integers(*_RANGES[kind])
    if kind is ValueType.BOOL:
        return st.booleans()
    if kind is ValueType.STRING:
        return st.text(max_size=20)
    return st.floats(width=32 if kind is ValueType.F32 else 64)


def _typed(kind: ValueType) -> st.SearchStrategy[Typed]:
    return _elements(kind).map(lambda value: Typed(value, kind))


def _array(kind: ValueType) -> st.SearchStrategy[Typed]:
    return st.lists(_elements(kind), max_size=30).map(lambda values: Typed(values, ValueType.ARRAY, kind))


_scalars: Final = [k for k in ValueType if k is not ValueType.ARRAY]
_values: Final = st.sampled_from(_scalars).flatmap(lambda kind: st.one_of(_typed(kind), _array(kind)))
_keys: Final = st.text(st.characters(codec="utf-8"), min_size=1, max_size=30)


def _same(left: object, right: PlainValue) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    if isinstance(left, tuple) and isinstance(right, list):
        return len(left) == len(right) and all(_same(a, b) for a, b in zip(left, right, strict=True))
    return left == right and isinstance(left, bool) == isinstance(right, bool)


@given(
    fields=st.dictionaries(_keys, _values, max_size=12),
    version=st.sampled_from([1, 2, 3]),
    big=st.booleans(),
)
def test_what_is_written_is_read_back_with_its_type(fields: dict[str, Typed], version: int, *, big: bool) -> None:
    fields.pop("general.alignment", None)
    writer = GgufWriter(version=version, big_endian=big)
    for key, value in fields.items():
        writer.add(key, value)
    meta, _ = parse_metadata(writer.to_bytes())
    assert list(meta.fields) == list(fields)
    for key, value in fields.items():
        described = meta.fields.find(key)
        assert described is not None
        assert described.type is value.type
        if value.type is ValueType.ARRAY:
            assert described.element_type is value.element_type
        assert _same(meta.fields[key], value.value)


@given(st.binary(max_size=400))
def test_no_bytes_whatever_raise_anything_but_a_gguf_error(data: bytes) -> None:
    for candidate in (data, b"GGUF\3\0\0\0" + data, b"GGUF\0\0\0\3" + data):
        try:
            meta, _ = parse_metadata(candidate)
        except GgufError:
            continue
        would_load(meta)


_BASE: Final = tiny_model("llama", shape=TinyShape(layers=1)).header()


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, len(_BASE) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_a_healthy_header_with_flipped_bytes_never_breaks_the_reader(flips: list[tuple[int, int]]) -> None:
    data = bytearray(_BASE)
    for place, value in flips:
        data[place] = value
    try:
        meta, consumed = parse_metadata(data)
    except GgufError:
        return
    assert 0 < consumed <= len(data)
    assert len(meta.head_counts) <= 512
    would_load(meta)
    for name in ("warnings", "attention_class", "quant_label", "n_params", "active_params", "chat_templates", "kind"):
        getattr(meta, name)


@given(st.lists(st.tuples(st.integers(0, len(_BASE) - 8), st.integers(0, 2**64 - 1)), min_size=1, max_size=3))
def test_a_header_with_wild_numbers_takes_no_more_memory_than_the_file_could_justify(
    wild: list[tuple[int, int]],
) -> None:
    data = bytearray(_BASE)
    for place, number in wild:
        data[place : place + 8] = number.to_bytes(8, "little")
    tracemalloc.start()
    try:
        parse_metadata(data)
    except GgufError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 40 * len(_BASE)

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gguf import GgufChanged, GgufFileUnreadable, GgufWriter, LazyArray, Typed, ValueType, read_metadata_file
from blazar_gguf.reader import parse_metadata

COUNT = 10_000


def _lazy(tmp_path: Path, values: list[int] | list[float] | list[str] | list[bool], kind: ValueType) -> LazyArray:
    path = GgufWriter().add("a", Typed(values, ValueType.ARRAY, kind)).write(tmp_path / "m.gguf")
    found = read_metadata_file(path).fields["a"]
    assert isinstance(found, LazyArray)
    return found


@pytest.mark.parametrize(
    ("kind", "make"),
    [
        pytest.param(ValueType.U8, lambda n: n % 256, id="u8"),
        pytest.param(ValueType.I8, lambda n: n % 256 - 128, id="i8"),
        pytest.param(ValueType.U16, lambda n: n, id="u16"),
        pytest.param(ValueType.I16, lambda n: n - 5000, id="i16"),
        pytest.param(ValueType.U32, lambda n: n + (1 << 31), id="u32"),
        pytest.param(ValueType.I32, lambda n: -n, id="i32"),
        pytest.param(ValueType.F32, lambda n: n / 4, id="f32"),
        pytest.param(ValueType.BOOL, lambda n: n % 3 == 0, id="bool"),
        pytest.param(ValueType.STRING, lambda n: f"▁token {n}" * (n % 5), id="str"),
        pytest.param(ValueType.U64, lambda n: n + (1 << 63), id="u64"),
        pytest.param(ValueType.I64, lambda n: -(1 << 60) - n, id="i64"),
        pytest.param(ValueType.F64, lambda n: n / 3, id="f64"),
    ],
)
def test_a_large_array_reads_like_a_sequence(tmp_path: Path, kind: ValueType, make) -> None:  # type: ignore[no-untyped-def]  # a table of small functions
    values = [make(n) for n in range(COUNT)]
    lazy = _lazy(tmp_path, values, kind)
    assert lazy.element_type is kind
    assert len(lazy) == COUNT
    assert lazy.load() == tuple(values)
    assert list(lazy) == values
    for place in (0, 1, 1023, 1024, 1025, COUNT - 1, -1, -COUNT):
        assert lazy[place] == values[place]
    for part in (slice(5), slice(1000, 3000, 7), slice(None, None, -999), slice(20, 10), slice(-3, None)):
        assert list(lazy[part]) == values[part]
    assert values[77] in lazy


@pytest.mark.parametrize("place", [COUNT, -COUNT - 1])
def test_an_index_outside_is_an_index_error(tmp_path: Path, place: int) -> None:
    with pytest.raises(IndexError):
        _lazy(tmp_path, list(range(COUNT)), ValueType.I32)[place]


def test_tokens_come_as_bytes_too(tmp_path: Path) -> None:
    tokens = [b"\xff\xfe", b"", *[b"x%d" % n for n in range(COUNT)]]
    path = GgufWriter().add("a", tokens).write(tmp_path / "m.gguf")
    lazy = read_metadata_file(path).fields["a"]
    assert isinstance(lazy, LazyArray)
    assert lazy.load_bytes() == tokens
    assert lazy[0] == "\ufffd\ufffd"


def test_bytes_of_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="elements are i32"):
        _lazy(tmp_path, list(range(COUNT)), ValueType.I32).load_bytes()


def test_small_arrays_are_plain_tuples(tmp_path: Path) -> None:
    path = GgufWriter().add("a", list(range(4096))).write(tmp_path / "m.gguf")
    assert read_metadata_file(path).fields["a"] == tuple(range(4096))


def test_a_few_very_long_strings_stay_lazy(tmp_path: Path) -> None:
    path = GgufWriter().add("a", ["x" * 50_000, "y" * 50_000]).write(tmp_path / "m.gguf")
    lazy = read_metadata_file(path).fields["a"]
    assert isinstance(lazy, LazyArray)
    assert lazy[1] == "y" * 50_000


def test_a_long_string_is_read_when_asked_for(tmp_path: Path) -> None:
    path = GgufWriter().add("s", "ü" * 100_000).write(tmp_path / "m.gguf")
    meta = read_metadata_file(path)
    field = meta.fields.find("s")
    assert field is not None
    assert field.decoded is None
    assert field.value == "ü" * 100_000


def test_a_file_replaced_after_its_header_was_read_is_noticed(tmp_path: Path) -> None:
    path = GgufWriter().add("a", list(range(COUNT))).write(tmp_path / "m.gguf")
    lazy = read_metadata_file(path).fields["a"]
    GgufWriter().add("b", list(range(COUNT))).write(path)
    assert isinstance(lazy, LazyArray)
    with pytest.raises(GgufChanged, match="changed after its header was read"):
        lazy.load()


def test_a_file_removed_after_its_header_was_read_is_noticed(tmp_path: Path) -> None:
    path = GgufWriter().add("a", list(range(COUNT))).write(tmp_path / "m.gguf")
    lazy = read_metadata_file(path).fields["a"]
    path.unlink()
    assert isinstance(lazy, LazyArray)
    with pytest.raises(GgufFileUnreadable):
        lazy[3]


@given(st.lists(st.binary(max_size=300), min_size=1, max_size=12), st.integers(0, 4999))
def test_any_element_is_found_through_the_sparse_index(motif: list[bytes], place: int) -> None:
    tokens = (motif * 5000)[:5000]
    meta, _ = parse_metadata(GgufWriter().add("a", tokens).to_bytes())
    lazy = meta.fields["a"]
    if isinstance(lazy, LazyArray):
        assert lazy[place] == tokens[place].decode("utf-8", "replace")
    assert len(lazy) == 5000  # type: ignore[arg-type]  # an array, lazy or not

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from blazar_gguf import (
    GgufError,
    GgufFileUnreadable,
    GgufMalformed,
    GgufTooLarge,
    GgufTruncated,
    GgufWriter,
    NotGguf,
    UnsupportedVersion,
    parse_metadata,
    peek_header,
    read_metadata_file,
)
from blazar_gguf.encoding import Encoder
from blazar_gguf.testing import RawField, RawFile, RawTensor
from blazar_gguf.types import ValueType as T


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("order", ["<", ">"])
def test_every_version_reads_the_same_in_both_byte_orders(raw: RawFile, version: int, order: str) -> None:
    expected, _ = parse_metadata(raw.to_bytes())
    raw.version, raw.order = version, order
    meta, consumed = parse_metadata(raw.to_bytes())
    assert (meta.version, meta.big_endian) == (version, order == ">")
    assert dict(meta.fields) == dict(expected.fields)
    assert meta.tensors == expected.tensors
    assert consumed == meta.header_bytes
    assert meta.data_offset % 32 == 0


def test_consumed_is_the_end_of_the_tensor_infos(tiny: GgufWriter) -> None:
    data = tiny.to_bytes()
    meta, consumed = parse_metadata(data)
    again, same = parse_metadata(data[:consumed])
    assert same == consumed
    assert again.tensors == meta.tensors
    assert again.missing_bytes == meta.data_offset + meta.layout.data_bytes - consumed


def test_a_header_cut_anywhere_is_a_typed_error_that_names_the_place(tiny: GgufWriter) -> None:
    data = tiny.to_bytes()
    _, consumed = parse_metadata(data)
    for length in range(4):
        with pytest.raises(NotGguf):
            parse_metadata(data[:length])
    for length in range(4, consumed):
        with pytest.raises(GgufTruncated) as caught:
            parse_metadata(data[:length])
        assert caught.value.offset is not None
        assert caught.value.offset <= length


def test_a_header_in_the_older_layout_cut_anywhere_is_a_typed_error(raw: RawFile) -> None:
    raw.version, raw.order = 1, ">"
    raw.fields, raw.tensors = raw.fields[:12], raw.tensors[:3]
    data = raw.to_bytes()
    _, consumed = parse_metadata(data)
    for length in range(consumed):
        with pytest.raises(GgufError):
            parse_metadata(data[:length])


def _add(
    key: str, kind: int, value: int | bytes | list[int | float | str | bytes], **rest: int
) -> Callable[[RawFile], None]:
    return lambda raw: raw.fields.append(RawField(key.encode(), kind, value, **rest))


def _dims(*dims: int) -> Callable[[RawFile], None]:
    def bend(raw: RawFile) -> None:
        raw.tensors[1].dims = list(dims)

    return bend


def _set(**changes: object) -> Callable[[RawFile], None]:
    def bend(raw: RawFile) -> None:
        for name, value in changes.items():
            setattr(raw, name, value)

    return bend


def _repeat_tensor(raw: RawFile) -> None:
    raw.tensors.append(raw.tensors[0])


def _repeat_key(raw: RawFile) -> None:
    raw.fields.append(raw.fields[3])


def _odd_rows(raw: RawFile) -> None:
    raw.tensors[0].type_id, raw.tensors[0].dims = 2, [33, 1]


@pytest.mark.parametrize(
    ("bend", "error"),
    [
        pytest.param(_set(magic=b"GGML"), NotGguf, id="old magic"),
        pytest.param(_set(magic=b"<!DO"), NotGguf, id="web page"),
        pytest.param(_set(magic=b"\0\0\0\0"), NotGguf, id="zeros"),
        pytest.param(_set(version=0), UnsupportedVersion, id="version 0"),
        pytest.param(_set(version=4), UnsupportedVersion, id="version 4"),
        pytest.param(_set(version=99), UnsupportedVersion, id="version 99"),
        pytest.param(_set(version=0x63000000), UnsupportedVersion, id="version 99, other byte order"),
        pytest.param(_set(claimed_fields=1 << 40), GgufTooLarge, id="key-value count 2^40"),
        pytest.param(_set(claimed_fields=(1 << 64) - 1), GgufTooLarge, id="key-value count 2^64-1"),
        pytest.param(_set(claimed_tensors=1 << 40), GgufTooLarge, id="tensor count 2^40"),
        pytest.param(_set(claimed_fields=0), GgufError, id="key-value count 0"),
        pytest.param(_add("s", T.STRING, b"", claimed=1 << 60), GgufTooLarge, id="string of 2^60 bytes"),
        pytest.param(_add("s", T.STRING, b"", claimed=1 << 40), GgufTooLarge, id="string past the end"),
        pytest.param(_add("a", T.ARRAY, [], claimed=1 << 60), GgufTooLarge, id="array of 2^60 numbers"),
        pytest.param(
            _add("a", T.ARRAY, [], element_type=T.STRING, claimed=1 << 40), GgufTooLarge, id="array of 2^40 strings"
        ),
        pytest.param(_add("a", T.ARRAY, [0], element_type=T.ARRAY), GgufMalformed, id="array of arrays"),
        pytest.param(_add("a", T.ARRAY, [0], element_type=13), GgufMalformed, id="array of an unknown type"),
        pytest.param(_add("v", 13, 0), GgufMalformed, id="unknown value type"),
        pytest.param(_add("v", 0xFFFFFFFF, 0), GgufMalformed, id="value type 2^32-1"),
        pytest.param(_add("", T.U32, 0), GgufMalformed, id="empty key"),
        pytest.param(_repeat_key, GgufMalformed, id="key twice"),
        pytest.param(_repeat_tensor, GgufMalformed, id="tensor twice"),
        pytest.param(_dims(1, 1, 1, 1, 1), GgufMalformed, id="five dimensions"),
        pytest.param(_dims(*[1] * 1_000_000), GgufMalformed, id="a million dimensions"),
        pytest.param(_dims(-1), GgufMalformed, id="negative dimension"),
        pytest.param(_dims(1 << 40, 1 << 40), GgufMalformed, id="elements beyond 64 bits"),
        pytest.param(_dims(1 << 33, 1 << 33), GgufMalformed, id="elements that wrap to a small number"),
        pytest.param(_odd_rows, GgufMalformed, id="rows that are no multiple of the block"),
        pytest.param(_add("general.alignment", T.U32, 0), GgufMalformed, id="alignment 0"),
        pytest.param(_add("general.alignment", T.U32, 3), GgufMalformed, id="alignment 3"),
        pytest.param(_add("general.alignment", T.I32, -32), GgufMalformed, id="negative alignment"),
        pytest.param(_add("general.alignment", T.STRING, b"32"), GgufMalformed, id="alignment as text"),
    ],
)
def test_a_hostile_header_is_a_typed_error(
    raw: RawFile, bend: Callable[[RawFile], None], error: type[GgufError], tmp_path: Path
) -> None:
    bend(raw)
    path = raw.write(tmp_path / "odd.gguf")
    with pytest.raises(error) as caught:
        read_metadata_file(path)
    assert str(path) in str(caught.value)
    assert caught.value.code.startswith(("gguf-", "not-"))


def test_a_dimension_of_zero_reads_as_an_empty_tensor(raw: RawFile) -> None:
    raw.tensors[1].dims = [0]
    meta, _ = parse_metadata(raw.to_bytes())
    assert (meta.tensors[1].n_elements, meta.tensors[1].n_bytes) == (0, 0)


def test_unusual_but_harmless_headers_are_read(raw: RawFile) -> None:
    raw.fields += [
        RawField(b"a\0b", T.U32, 1),
        RawField(b"k" * 70_000, T.U32, 2),
        RawField(b"\xff\xfe", T.U32, 3),
        RawField(b"empty", T.ARRAY, []),
        RawField(b"truth", T.BOOL, 2),
    ]
    raw.put("general.name", T.STRING, b"\xff\xfe\xfa")
    meta, _ = parse_metadata(raw.to_bytes())
    assert meta.get("a\0b") == 1
    assert meta.get("k" * 70_000) == 2
    assert meta.get("\\xff\\xfe") == 3
    assert meta.get("empty") == ()
    assert meta.get("truth") is True
    assert meta.name == "\ufffd\ufffd\ufffd"
    named = meta.fields.find("general.name")
    assert named is not None
    assert named.raw() == b"\xff\xfe\xfa"


def test_text_is_utf8_not_latin1(raw: RawFile) -> None:
    raw.put("general.name", T.STRING, "Käfer 模型".encode())
    meta, _ = parse_metadata(raw.to_bytes())
    assert meta.name == "Käfer 模型"


def test_tensors_in_another_order_and_with_gaps_are_read_with_a_warning(raw: RawFile) -> None:
    raw.tensors[2], raw.tensors[3] = raw.tensors[3], raw.tensors[2]
    meta, _ = parse_metadata(raw.to_bytes())
    assert any("without gaps" in warning for warning in meta.warnings)


def test_an_unknown_tensor_type_is_sized_by_the_place_of_the_next(raw: RawFile) -> None:
    expected = raw.tensors[1].offset - raw.tensors[0].offset
    raw.tensors[0].type_id = 200
    meta, _ = parse_metadata(raw.to_bytes())
    first = meta.tensors[0]
    assert (first.type_name, first.ggml_type, first.n_bytes) == ("type 200", None, expected)
    assert any("unknown tensor types" in warning for warning in meta.warnings)


def test_the_last_tensor_of_an_unknown_type_takes_the_rest_of_the_file() -> None:
    file = RawFile([], [RawTensor(b"t", [10], 99, 0, bytes(320))])
    meta, _ = parse_metadata(file.to_bytes())
    assert meta.tensors[0].n_bytes == 320


def test_data_that_are_missing_are_counted(raw: RawFile) -> None:
    raw.cut = lambda ends: ends.whole - 1000
    meta, _ = parse_metadata(raw.to_bytes())
    padding = -meta.tensors[-1].n_bytes % meta.alignment
    assert meta.missing_bytes == 1000 - padding
    assert any("incomplete" in warning for warning in meta.warnings)


class TestPaths:
    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(GgufFileUnreadable, match="No such file"):
            read_metadata_file(tmp_path / "none.gguf")

    def test_directory(self, tmp_path: Path) -> None:
        with pytest.raises(GgufFileUnreadable, match="directory"):
            read_metadata_file(tmp_path)

    def test_pipe_does_not_block(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(GgufFileUnreadable, match="no regular file"):
            read_metadata_file(tmp_path / "pipe")

    def test_name_with_a_zero_byte(self) -> None:
        with pytest.raises(GgufFileUnreadable):
            read_metadata_file("a\0b")

    def test_empty(self, tmp_path: Path) -> None:
        (tmp_path / "empty.gguf").touch()
        with pytest.raises(NotGguf, match="empty"):
            read_metadata_file(tmp_path / "empty.gguf")

    def test_a_second_piece_of_a_byte_cut(self, tiny: GgufWriter, tmp_path: Path) -> None:
        (tmp_path / "m.gguf.part2of2").write_bytes(tiny.to_bytes()[5000:])
        with pytest.raises(NotGguf):
            read_metadata_file(tmp_path / "m.gguf.part2of2")


def _long_vocabulary(writer: GgufWriter, count: int) -> GgufWriter:
    writer.add("tokenizer.ggml.tokens", [f"token {n}" for n in range(count)])
    return writer.add("late.key", "found")


class TestPeek:
    def test_stops_before_the_first_large_array(self, tiny: GgufWriter, tmp_path: Path) -> None:
        path = _long_vocabulary(tiny, 20_000).write(tmp_path / "m.gguf")
        meta = peek_header(path)
        assert not meta.complete
        assert (meta.architecture, meta.block_count, meta.vocab_size) == ("llama", 2, 20_000)
        assert (meta.context_length, meta.head_counts, meta.num_loops) == (4096, (4, 4), 1)
        assert not meta.complete

    def test_an_absent_shape_key_does_not_make_it_read_on(self, tiny: GgufWriter, tmp_path: Path) -> None:
        meta = peek_header(_long_vocabulary(tiny, 20_000).write(tmp_path / "m.gguf"))
        assert meta.arch("attention.sliding_window") is None
        assert not meta.complete

    @pytest.mark.parametrize("what", ["key", "tensors", "iteration", "length"])
    def test_reads_on_when_asked_for_what_lies_behind(self, tiny: GgufWriter, tmp_path: Path, what: str) -> None:
        path = _long_vocabulary(tiny, 20_000).write(tmp_path / "m.gguf")
        meta, whole = peek_header(path), read_metadata_file(path)
        match what:
            case "key":
                assert meta.get("late.key") == "found"
            case "tensors":
                assert meta.tensors == whole.tensors
            case "iteration":
                assert list(meta.fields) == list(whole.fields)
            case _:
                assert len(meta.fields) == len(whole.fields)
        assert meta.complete
        assert meta.n_params == whole.n_params

    def test_of_a_small_header_is_complete_at_once(self, tiny_path: Path) -> None:
        assert peek_header(tiny_path).complete

    def test_damage_behind_the_vocabulary_shows_when_reading_on(self, tiny: GgufWriter, tmp_path: Path) -> None:
        data = _long_vocabulary(tiny, 20_000).to_bytes()
        (tmp_path / "m.gguf").write_bytes(data[: data.index(b"late.key") + 4])
        meta = peek_header(tmp_path / "m.gguf")
        assert meta.block_count == 2
        for _ in range(2):
            with pytest.raises(GgufTruncated):
                meta.get("late.key")
        assert meta.block_count == 2


def test_strings_that_straddle_the_read_blocks_are_hopped_correctly() -> None:
    tokens = [bytes([n % 251]) * (n * 37 % 3000) for n in range(9000)]
    data = GgufWriter().add("tokens", tokens).add("after", 7).to_bytes()
    meta, _ = parse_metadata(data)
    assert meta.get("after") == 7
    lazy = meta.fields["tokens"]
    assert [len(t) for t in lazy.load_bytes()] == [len(t) for t in tokens]  # type: ignore[union-attr]  # it is lazy


def test_the_walk_does_not_trust_a_string_length_inside_an_array() -> None:
    data = bytearray(GgufWriter().add("tokens", ["x"] * 5000).add("after", 7).to_bytes())
    place = data.index(b"tokens") + 6 + 4 + 4 + 8
    data[place + 9 * 2500 : place + 9 * 2500 + 8] = struct.pack("<Q", 1 << 62)
    with pytest.raises(GgufTooLarge):
        parse_metadata(data)


def test_the_encoder_and_the_walk_agree_on_widths() -> None:
    assert Encoder("<", 1).string("ab") == b"\2\0\0\0ab"
    assert Encoder(">", 3).string("ab") == b"\0\0\0\0\0\0\0\2ab"

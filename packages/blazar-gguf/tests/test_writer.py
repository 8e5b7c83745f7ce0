import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from blazar_gguf import (
    GGML_TYPES,
    GgufWriteError,
    GgufWriter,
    Typed,
    ValueType,
    copy_with_metadata,
    parse_metadata,
    read_metadata_file,
    would_load_file,
)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        pytest.param(7, "u32", id="int"),
        pytest.param(-7, "i32", id="negative int"),
        pytest.param(1 << 40, "u64", id="large int"),
        pytest.param(-(1 << 40), "i64", id="large negative int"),
        pytest.param(0.5, "f32", id="float"),
        pytest.param(True, "bool", id="bool"),
        pytest.param("x", "str", id="text"),
        pytest.param(b"\xff", "str", id="bytes"),
        pytest.param([1, 2], "arr[i32, 2]", id="ints"),
        pytest.param([], "arr[i32, 0]", id="nothing"),
        pytest.param([-1, 1 << 31], "arr[i64, 2]", id="wide ints"),
        pytest.param([1 << 31, 1], "arr[u32, 2]", id="unsigned ints"),
        pytest.param([1, 0.5], "arr[f64, 2]", id="mixed numbers"),
        pytest.param([0.5], "arr[f32, 1]", id="floats"),
        pytest.param([True, False], "arr[bool, 2]", id="bools"),
        pytest.param(["a", b"\xff"], "arr[str, 2]", id="texts"),
        pytest.param(Typed(7, ValueType.U16), "u16", id="typed"),
        pytest.param(Typed([1], ValueType.ARRAY, ValueType.U8), "arr[u8, 1]", id="typed array"),
    ],
)
def test_values_take_the_type_converters_use(value: int, kind: str) -> None:
    meta, _ = parse_metadata(GgufWriter().add("k", value).to_bytes())
    field = meta.fields.find("k")
    assert field is not None
    assert field.type_label == kind


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        pytest.param("k", Typed(300, ValueType.U8), "300 cannot be stored as u8", id="too large"),
        pytest.param("k", Typed("a", ValueType.U32), "not a number", id="text as number"),
        pytest.param("k", Typed(1, ValueType.STRING), "not a string", id="number as text"),
        pytest.param("k", Typed([[1]], ValueType.ARRAY), "k: ", id="nested"),  # type: ignore[arg-type]  # on purpose
        pytest.param("k", [1, "a"], "of one kind", id="mixed"),
        pytest.param("k", None, "NoneType is no GGUF value", id="none"),
        pytest.param("k", 1 << 70, "cannot be stored", id="beyond 64 bits"),
        pytest.param("", 1, "must not be empty", id="empty key"),
    ],
)
def test_what_cannot_be_stored_is_refused_in_words(key: str, value: int, message: str) -> None:
    with pytest.raises(GgufWriteError, match=message):
        GgufWriter().add(key, value)


class TestTensors:
    def test_data_follow_one_another_padded(self) -> None:
        writer = GgufWriter("x", alignment=64)
        writer.add_tensor("a", (3,), "F32", b"a" * 12).add_tensor("b", (32, 2), "q8_0", lambda: iter([b"b" * 34] * 2))
        data = writer.to_bytes()
        meta, _ = parse_metadata(data)
        assert [t.offset for t in meta.tensors] == [0, 64]
        assert meta.alignment == 64
        assert data[meta.data_offset :] == b"a" * 12 + bytes(52) + b"b" * 68 + bytes(60)

    @pytest.mark.parametrize("kind", GGML_TYPES.values(), ids=lambda k: k.name)
    def test_every_type_has_the_size_of_its_blocks(self, kind: object) -> None:
        found = GGML_TYPES[kind.id]  # type: ignore[attr-defined]  # the parameter is an entry of the table
        writer = GgufWriter().add_tensor("t", (found.block * 2, 3), found, bytes(found.bytes * 6))
        meta, _ = parse_metadata(writer.to_bytes())
        assert meta.tensors[0].n_bytes == found.bytes * 6
        assert found.bits_per_weight == 8 * found.bytes / found.block

    @pytest.mark.parametrize(
        ("name", "dims", "kind", "data", "message"),
        [
            pytest.param("t", (2,), "F99", b"", "unknown tensor type", id="type"),
            pytest.param("t" * 64, (1,), "F32", bytes(4), "longer than 63", id="name"),
            pytest.param("t", (33,), "Q8_0", bytes(34), "does not suit", id="block"),
            pytest.param("t", (1,) * 5, "F32", bytes(4), "does not suit", id="dimensions"),
            pytest.param("t", (2,), "F32", bytes(7), "7 bytes of data", id="size"),
            pytest.param("first", (1,), "F32", bytes(4), "added before", id="twice"),
        ],
    )
    def test_nonsense_is_refused(self, name: str, dims: tuple[int, ...], kind: str, data: bytes, message: str) -> None:
        writer = GgufWriter().add_tensor("first", (1,), "F32", bytes(4))
        with pytest.raises(GgufWriteError, match=message):
            writer.add_tensor(name, dims, kind, data)

    def test_a_function_that_yields_too_little_leaves_no_file(self, tmp_path: Path) -> None:
        def short() -> Iterator[bytes]:
            yield b"abc"

        writer = GgufWriter().add_tensor("t", (1,), "F32", short)
        with pytest.raises(GgufWriteError, match="3 bytes came"):
            writer.write(tmp_path / "m.gguf")
        assert list(tmp_path.iterdir()) == []


def test_alignment_must_be_a_power_of_two() -> None:
    with pytest.raises(GgufWriteError, match="power of two"):
        GgufWriter(alignment=24)


def test_adding_a_key_again_replaces_it_in_place() -> None:
    meta, _ = parse_metadata(GgufWriter().add("a", 1).add("b", 2).add("a", "three").to_bytes())
    assert dict(meta.fields) == {"a": "three", "b": 2}
    assert list(meta.fields) == ["a", "b"]


class TestCopy:
    def test_keys_change_and_tensors_do_not(self, tiny_path: Path, tmp_path: Path) -> None:
        target = tmp_path / "copy.gguf"
        changes: dict[str, str | int | list[int] | None] = {
            "general.name": "ein anderer",
            "llama.context_length": 99,
            "my.list": [1, 2],
            "general.type": None,
        }
        assert copy_with_metadata(tiny_path, target, changes) == target
        before, after = read_metadata_file(tiny_path), read_metadata_file(target)
        expected = {k: v for k, v in before.fields.items() if k != "general.type"}
        expected |= {"general.name": "ein anderer", "llama.context_length": 99, "my.list": (1, 2)}
        assert dict(after.fields) == expected
        assert after.tensors == before.tensors
        assert target.read_bytes()[after.data_offset :] == tiny_path.read_bytes()[before.data_offset :]
        assert would_load_file(target).loads

    def test_without_changes_the_copy_is_byte_for_byte_the_same(self, tiny_path: Path, tmp_path: Path) -> None:
        copy_with_metadata(tiny_path, tmp_path / "copy.gguf", {})
        assert (tmp_path / "copy.gguf").read_bytes() == tiny_path.read_bytes()

    @pytest.mark.parametrize(("version", "big"), [(1, False), (2, True), (3, True)])
    def test_every_layout_is_kept(self, tmp_path: Path, version: int, *, big: bool) -> None:
        writer = GgufWriter("x", version=version, big_endian=big).add("list", [b"\xff", b""]).add("n", 5)
        path = writer.add_tensor("t", (4,), "F32", struct.pack("4f", 1, 2, 3, 4)).write(tmp_path / "m.gguf")
        copy_with_metadata(path, tmp_path / "same.gguf", {})
        assert (tmp_path / "same.gguf").read_bytes() == path.read_bytes()
        copy_with_metadata(path, tmp_path / "other.gguf", {"n": 6})
        meta = read_metadata_file(tmp_path / "other.gguf")
        assert (meta.get("n"), meta.version, meta.big_endian) == (6, version, big)

    @pytest.mark.parametrize(
        ("key", "value", "kind"),
        [
            pytest.param("llama.context_length", 5, "u32", id="same type"),
            pytest.param("split", 6, "u16", id="narrow type kept"),
            pytest.param("split", 70_000, "u32", id="narrow type outgrown"),
            pytest.param("llama.context_length", "text", "str", id="another kind"),
            pytest.param("llama.context_length", Typed(5, ValueType.U64), "u64", id="chosen type"),
            pytest.param("scale", 2, "f32", id="whole number for a float"),
        ],
    )
    def test_a_changed_key_keeps_its_type_where_it_can(self, tmp_path: Path, key: str, value: int, kind: str) -> None:
        writer = (
            GgufWriter("llama").add("llama.context_length", 1).add("split", Typed(1, ValueType.U16)).add("scale", 0.5)
        )
        path = writer.write(tmp_path / "m.gguf")
        copy_with_metadata(path, path, {key: value})
        field = read_metadata_file(path).fields.find(key)
        assert field is not None
        assert field.type_label == kind

    def test_a_large_vocabulary_is_streamed(self, tmp_path: Path) -> None:
        tokens = [f"token {n}" for n in range(30_000)]
        path = GgufWriter("llama").add("tokenizer.ggml.tokens", tokens).add("n", 1).write(tmp_path / "m.gguf")
        copy_with_metadata(path, path, {"n": 2})
        meta = read_metadata_file(path)
        assert list(meta.fields["tokenizer.ggml.tokens"]) == tokens  # type: ignore[arg-type]  # an array
        assert meta.get("n") == 2

    def test_the_mode_of_the_replaced_file_is_kept(self, tiny_path: Path) -> None:
        tiny_path.chmod(0o640)
        copy_with_metadata(tiny_path, tiny_path, {"general.name": "new"})
        assert tiny_path.stat().st_mode & 0o777 == 0o640

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            pytest.param({"general.alignment": 64}, "without moving every tensor", id="alignment"),
            pytest.param({"not.there": None}, "is not in the file", id="absent key"),
            pytest.param({"k": Typed(-1, ValueType.U32)}, "cannot be stored", id="bad value"),
        ],
    )
    def test_what_cannot_be_done_is_refused_and_leaves_nothing(
        self, tiny_path: Path, tmp_path: Path, changes: dict[str, int | None], message: str
    ) -> None:
        with pytest.raises(GgufWriteError, match=message):
            copy_with_metadata(tiny_path, tmp_path / "copy.gguf", changes)
        assert list(tmp_path.iterdir()) == [tiny_path]

    def test_an_incomplete_file_is_not_copied(self, tiny_path: Path, tmp_path: Path) -> None:
        tiny_path.write_bytes(tiny_path.read_bytes()[:-100])
        with pytest.raises(GgufWriteError, match="are missing"):
            copy_with_metadata(tiny_path, tmp_path / "copy.gguf", {})

from pathlib import Path

import pytest

from blazar_gguf import (
    GgufWriter,
    ShardMismatch,
    ShardMissing,
    ShardName,
    Typed,
    ValueType,
    parse_shard_name,
    resolve_shards,
    shard_name,
    would_load,
    would_load_file,
)
from blazar_gguf.testing import RawFile, TinyShape, tiny_model


def write_split(folder: Path, prefix: str = "model", count: int = 3) -> list[Path]:
    """A tiny model in several files, as llama-gguf-split writes them."""
    whole = RawFile.from_writer(tiny_model("llama", shape=TinyShape(layers=2)))
    paths = []
    for number in range(count):
        part = RawFile(list(whole.fields) if number == 0 else [], whole.tensors[number::count])
        part.put("split.no", ValueType.U16, number)
        part.put("split.count", ValueType.U16, count)
        part.put("split.tensors.count", ValueType.I32, len(whole.tensors))
        part.lay_out(32)
        paths.append(part.write(folder / shard_name(prefix, number + 1, count)))
    return paths


@pytest.mark.parametrize("given", [0, 1, 2])
def test_any_part_leads_to_the_whole_set(tmp_path: Path, given: int) -> None:
    paths = write_split(tmp_path)
    found = resolve_shards(paths[given])
    whole = tiny_model("llama", shape=TinyShape(layers=2))
    assert found.paths == tuple(paths)
    assert len(found) == 3
    assert found.meta.architecture == "llama"
    assert found.n_params == sum(t.n_elements for t in whole.tensors) == found.active_params
    assert found.tensor_bytes == sum(t.n_bytes for t in whole.tensors)
    assert found.total_bytes == sum(p.stat().st_size for p in paths)


def test_a_model_in_one_file_is_a_set_of_one(tiny_path: Path) -> None:
    found = resolve_shards(tiny_path)
    assert (found.paths, found.total_bytes) == ((tiny_path,), tiny_path.stat().st_size)


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    paths = write_split(tmp_path)
    paths[1].unlink()
    with pytest.raises(ShardMissing, match=r"model-00002-of-00003\.gguf"):
        resolve_shards(paths[0])


def test_a_part_of_another_set_is_noticed(tmp_path: Path) -> None:
    paths = write_split(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    write_split(other, count=2)[1].replace(paths[1])
    with pytest.raises(ShardMismatch, match="one of 2"):
        resolve_shards(paths[0])


def test_parts_in_the_wrong_places_are_noticed(tmp_path: Path) -> None:
    paths = write_split(tmp_path)
    kept = paths[1].read_bytes()
    paths[2].replace(paths[1])
    paths[2].write_bytes(kept)
    with pytest.raises(ShardMismatch, match="number 3"):
        resolve_shards(paths[0])


def test_a_part_without_its_name_tells_what_to_call_it(tmp_path: Path) -> None:
    path = write_split(tmp_path)[0].replace(tmp_path / "renamed.gguf")
    with pytest.raises(ShardMismatch, match=r"renamed-00001-of-00003\.gguf"):
        resolve_shards(path)


def test_experts_of_a_split_mixture_count_by_their_share(tmp_path: Path) -> None:
    first = GgufWriter("qwen3moe").add("qwen3moe.expert_count", 4).add("qwen3moe.expert_used_count", 1)
    for number, writer in enumerate((first, GgufWriter())):
        writer.add("split.no", Typed(number, ValueType.U16)).add("split.count", Typed(2, ValueType.U16))
        writer.add_tensor(f"blk.{number}.ffn_up_exps.weight", (8, 8, 4), "F32", bytes(8 * 8 * 4 * 4))
        writer.write(tmp_path / shard_name("m", number + 1, 2))
    found = resolve_shards(tmp_path / shard_name("m", 1, 2))
    assert (found.n_params, found.active_params) == (512, 128)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m-00001-of-00002.gguf", ShardName("m", 1, 2)),
        ("a-b-00010-of-00010.gguf", ShardName("a-b", 10, 10)),
        ("-00001-of-00001.gguf", ShardName("", 1, 1)),
        ("m-00000-of-00002.gguf", None),
        ("m-00003-of-00002.gguf", None),
        ("m-1-of-2.gguf", None),
        ("m-00001-of-00002.GGUF", None),
        ("m.gguf", None),
        ("m.gguf.part1of2", None),
    ],
)
def test_names(name: str, expected: ShardName | None) -> None:
    assert parse_shard_name(name) == expected
    if expected is not None:
        assert expected.part(expected.number) == name


class TestPrediction:
    def test_a_whole_set_loads_from_its_first_part(self, tmp_path: Path) -> None:
        paths = write_split(tmp_path)
        assert would_load_file(paths[0]).loads
        found = resolve_shards(paths[0])
        assert would_load(found.meta, found.metas[1:]).loads

    def test_a_later_part_is_refused(self, tmp_path: Path) -> None:
        assert would_load_file(write_split(tmp_path)[1]).rule == "split"

    def test_a_missing_part_is_refused(self, tmp_path: Path) -> None:
        paths = write_split(tmp_path)
        paths[2].unlink()
        assert not would_load_file(paths[0]).loads

    def test_a_damaged_part_is_refused(self, tmp_path: Path) -> None:
        paths = write_split(tmp_path)
        paths[2].write_bytes(paths[2].read_bytes()[:-100])
        verdict = would_load_file(paths[0])
        assert (verdict.loads, verdict.rule) == (False, "incomplete")

    def test_a_wrong_total_is_refused(self, tmp_path: Path) -> None:
        whole = RawFile.from_bytes(write_split(tmp_path)[0].read_bytes())
        whole.put("split.tensors.count", ValueType.I32, 5)
        whole.write(tmp_path / shard_name("model", 1, 3))
        assert would_load_file(tmp_path / shard_name("model", 1, 3)).rule == "split"

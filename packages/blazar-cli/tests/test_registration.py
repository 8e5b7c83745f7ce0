from pathlib import Path
from typing import Any

import pytest

from blazar_cli.errors import NotAModel, PathMissing
from blazar_cli.registration import derive_name, describe_model, find_doubt
from blazar_gguf import Typed, ValueType, read_metadata_file, shard_name
from blazar_gguf.copying import copy_with_metadata
from blazar_routing.errors import ModelUnreadable
from blazar_stubs import write_stub_model

PLAIN = "{% for m in messages %}{{ m.content }}{% endfor %}"


def write_gguf(path: Path, **fields: Any) -> Path:
    """Write a small model that an engine would load; ``fields`` are further keys, dots as double underscores."""
    changes = {key.replace("__", "."): value for key, value in fields.items()}
    chat_template = changes.pop("tokenizer.chat_template", "")
    model = write_stub_model(path, chat_template=chat_template)
    if changes:
        copy_with_metadata(model.path, path, changes)
    return path


@pytest.mark.parametrize(
    ("file", "name"),
    [
        pytest.param("SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct-q4_1", id="quantisation after a dot"),
        pytest.param("gemma3-270m-q4_k_m.gguf", "gemma3-270m-q4_k_m", id="already as it should be"),
        pytest.param("Qwen2.5-7B-IQ4_XS.gguf", "qwen2.5-7b-iq4_xs", id="a dot of a version stays"),
        pytest.param("Model.UD-Q4_K_XL.gguf", "model-ud-q4_k_xl", id="dynamic quantisation"),
        pytest.param("Big-00001-of-00003.gguf", "big", id="part number left out"),
        pytest.param("My model (v2)#1.gguf", "my-model-v2-1", id="spaces and marks become one dash"),
        pytest.param("Ünï.F16.gguf", "ünï-f16", id="letters of any script stay"),
        pytest.param("--.gguf", "model", id="nothing left"),
    ],
)
def test_a_name_is_derived_from_the_files(file: str, name: str) -> None:
    assert derive_name(Path("/x") / file) == name


def test_a_file_becomes_a_row_without_being_touched(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "Tiny.Q4_0.gguf", tokenizer__chat_template=PLAIN)
    before = path.stat()
    row = describe_model(path)
    assert (row.name, row.path, row.shards) == ("tiny-q4_0", path, (path,))
    assert (row.arch, row.ctx_train, row.quant) == ("llama", 4096, "Q4_0")
    assert row.params == read_metadata_file(path).n_params
    assert (row.size_bytes, row.capabilities, row.mmproj_path) == (before.st_size, ("completion",), None)
    assert len(row.digest) == 64
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert describe_model(path, name="mine").name == "mine"


def test_a_relative_path_and_a_link_keep_their_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_gguf(tmp_path / "a.gguf")
    (tmp_path / "stable.gguf").symlink_to("a.gguf")
    monkeypatch.chdir(tmp_path)
    assert describe_model(Path("stable.gguf")).path == tmp_path / "stable.gguf"


def test_the_digest_follows_the_file(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf")
    first = describe_model(path).digest
    assert describe_model(path).digest == first
    write_gguf(path, general__name="another")
    assert describe_model(path).digest != first


@pytest.mark.parametrize(
    ("fields", "capabilities"),
    [
        pytest.param({}, ("completion",), id="no template"),
        pytest.param({"tokenizer__chat_template": "no tools here"}, ("completion",), id="the word alone is no branch"),
        pytest.param({"tokenizer__chat_template": "{% if tools %}x{% endif %}"}, ("completion", "tools"), id="tools"),
        pytest.param({"tokenizer__chat_template": "<think>"}, ("completion", "thinking"), id="thinking"),
        pytest.param(
            {"tokenizer__chat_template__tool_use": "{{ tools }}"}, ("completion", "tools"), id="named template"
        ),
        pytest.param({"tokenizer__ggml__fim_pre_token_id": 1}, ("completion", "insert"), id="fill in the middle"),
        pytest.param({"llama__pooling_type": 1}, ("embedding",), id="pooling"),
        pytest.param({"llama__pooling_type": 0}, ("completion",), id="no pooling"),
    ],
)
def test_capabilities_come_from_header_and_template(
    tmp_path: Path, fields: dict[str, Any], capabilities: tuple[str, ...]
) -> None:
    assert describe_model(write_gguf(tmp_path / "m.gguf", **fields)).capabilities == capabilities


def write_shards(directory: Path, prefix: str, count: int, *, missing: int | None = None) -> list[Path]:
    paths = [directory / shard_name(prefix, number, count) for number in range(1, count + 1)]
    for number, path in enumerate(paths):
        if number != missing:
            numbers = {"no": number, "count": count}
            write_gguf(path, **{f"split__{key}": Typed(value, ValueType.U16) for key, value in numbers.items()})
    return paths


@pytest.mark.parametrize("part", [0, 2])
def test_any_part_of_a_split_set_means_the_whole(tmp_path: Path, part: int) -> None:
    paths = write_shards(tmp_path, "Big", 3)
    # By force: each part holds the same tensors here, which no engine would take.
    row = describe_model(paths[part], force=True)
    assert row.path == paths[0]
    assert row.shards == tuple(paths)
    assert (row.name, row.params) == ("big", 3 * (read_metadata_file(paths[0]).n_params))
    assert row.size_bytes == sum(path.stat().st_size for path in paths)


def test_a_set_with_a_part_missing_is_refused_by_its_name(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "Big", 3, missing=1)
    with pytest.raises(ModelUnreadable, match=r"Big-00002-of-00003\.gguf"):
        describe_model(paths[0])


def write_projector(path: Path) -> Path:
    return write_gguf(path, general__architecture="clip")


def test_a_directory_with_one_model_and_its_projector_is_that_model(tmp_path: Path) -> None:
    paths = write_shards(tmp_path, "Big", 2)
    projector = write_projector(tmp_path / "mmproj-Big.gguf")
    row = describe_model(tmp_path, force=True)
    assert (row.path, row.mmproj_path) == (paths[0], projector)
    assert "vision" in row.capabilities


def test_a_directory_with_several_models_names_them(tmp_path: Path) -> None:
    write_gguf(tmp_path / "a.gguf")
    write_gguf(tmp_path / "b.gguf")
    with pytest.raises(NotAModel, match=r"2 models \(a\.gguf, b\.gguf\).*blazar models add .*a\.gguf"):
        describe_model(tmp_path)


@pytest.mark.parametrize(
    ("file", "words"),
    [
        pytest.param(None, r"no \.gguf file", id="nothing"),
        pytest.param("model.safetensors", "safetensors weights", id="another format"),
    ],
)
def test_a_directory_without_a_model_says_what_is_missing(tmp_path: Path, file: str | None, words: str) -> None:
    if file is not None:
        (tmp_path / file).touch()
    with pytest.raises(NotAModel, match=words):
        describe_model(tmp_path)


def test_a_directory_whose_only_model_is_damaged_is_about_the_damage(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"GGUF")
    with pytest.raises(ModelUnreadable):
        describe_model(tmp_path)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        pytest.param("mmproj", "--mmproj", id="projector"),
        pytest.param("adapter", r"`lora = \[", id="adapter"),
        pytest.param("imatrix", "importance matrix", id="importance matrix"),
        pytest.param("vocab", "vocabulary only", id="vocabulary"),
    ],
)
def test_files_that_are_no_models_are_refused_with_what_they_are_for(tmp_path: Path, kind: str, words: str) -> None:
    path = write_gguf(tmp_path / "x.gguf", general__type=kind)
    with pytest.raises(NotAModel, match=words):
        describe_model(path)


def test_only_a_projector_can_be_given_as_one(tmp_path: Path) -> None:
    model = write_gguf(tmp_path / "m.gguf")
    projector = write_projector(tmp_path / "p.gguf")
    assert describe_model(model, mmproj=projector).mmproj_path == projector
    with pytest.raises(NotAModel, match="given as a projector"):
        describe_model(model, mmproj=model)


def test_a_file_that_would_abort_the_engine_is_refused_even_by_force(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", llama__block_count=100_000)
    for force in (False, True):
        with pytest.raises(ModelUnreadable, match="block_count"):
            describe_model(path, force=force)


def test_what_only_some_builds_refuse_is_worth_a_try(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", general__architecture="invented-tomorrow")
    row = describe_model(path)
    assert row.arch == "invented-tomorrow"
    assert "invented-tomorrow" in (find_doubt(row) or "")
    assert find_doubt(describe_model(write_gguf(tmp_path / "n.gguf"))) is None


@pytest.mark.parametrize("content", [b"", b"hello world", b"GGUF\x03\x00\x00\x00"], ids=["empty", "text", "cut"])
def test_a_damaged_file_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelUnreadable, match=str(path)):
        describe_model(path)


def test_a_path_with_nothing_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(PathMissing, match=r"nowhere\.gguf"):
        describe_model(tmp_path / "nowhere.gguf")


@pytest.mark.parametrize(
    ("template", "readable"),
    [
        pytest.param("", True, id="none at all"),
        pytest.param(PLAIN, True, id="text"),
        pytest.param(Typed(b"{{ messages }}\xff<thi", ValueType.STRING), False, id="not UTF-8"),
        pytest.param(7, False, id="a number"),
    ],
)
def test_a_template_that_cannot_be_read_is_remembered_as_such(tmp_path: Path, template: Any, readable: bool) -> None:
    path = write_gguf(tmp_path / "m.gguf")
    if template != "":
        copy_with_metadata(path, tmp_path / "n.gguf", {"tokenizer.chat_template": template})
        path = tmp_path / "n.gguf"
    assert describe_model(path).template_readable is readable

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blazar_gguf import GgufWriter, Typed, ValueType
from blazar_gguf.command import main
from blazar_gguf.report import human_bytes, human_count
from blazar_gguf.testing import odd_file, write_tiny_model


def test_the_facts_of_a_model_fit_on_a_screen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_tiny_model(tmp_path / "tiny-F16.gguf", "gemma3", layers=6, name="Tiny Gemma")
    assert main([str(path)]) == 0
    assert (
        capsys.readouterr().out
        == f"""\
file            {path}
name            Tiny Gemma
kind            model
architecture    gemma3
parameters      694.0 K
quantisation    F16, 16.08 bits per weight
weights         1.3 MiB
file size       1.3 MiB
context         4,096 tokens
layers          6, 128 wide
vocabulary      393 tokens
attention       4 heads, key-value heads: 2; 5 of 6 layers keep 512 tokens
chat templates  default
container       GGUF 3, little-endian, 81 tensors
llama-server    loads
"""
    )


def test_a_file_the_engine_refuses_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(odd_file("block_count as i32", tmp_path))]) == 0
    out = capsys.readouterr().out
    assert "llama-server    refuses: llama.block_count is stored as i32, the engine wants u32\n" in out
    assert "warning         llama.block_count is stored as i32 instead of u32" in out


def test_a_projector_is_described_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = GgufWriter("clip").add("clip.has_vision_encoder", True).add("clip.projector_type", "gemma3")
    assert main([str(writer.write(tmp_path / "mmproj.gguf"))]) == 0
    out = capsys.readouterr().out
    assert "encodes         vision\n" in out
    assert "projector       gemma3\n" in out
    assert "refuses: this is a projector" in out


def test_a_file_that_cannot_be_read_is_one_line_on_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.gguf")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"blazar-gguf: {tmp_path / 'none.gguf'}: cannot read this file: No such file or directory. "
        "Check the path and its permissions\n"
    )


def test_json_holds_everything_but_large_arrays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = GgufWriter("llama").add("big", list(range(5000))).add("nan", float("nan")).add("name", "ü")
    assert main([str(writer.write(tmp_path / "m.gguf")), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["architecture"] == "llama"
    assert found["prediction"]["outcome"] == "refuses"
    assert found["metadata"] == {
        "general.architecture": "llama",
        "big": {"array_of": "i32", "count": 5000},
        "nan": "nan",
        "name": "ü",
    }


def test_keys_are_printed_by_pattern(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = GgufWriter("llama")
    writer.add("a.list", list(range(20))).add("a.on", True).add("a.f", 0.5).add("a.text", "x" * 500).add("b", 1)
    path = str(writer.add("a.u8", Typed(7, ValueType.U8)).write(tmp_path / "m.gguf"))
    assert main([path, "--keys", "a.*"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["a.list", "arr[i32,", "20]"],
        ["a.on", "bool", "true"],
        ["a.f", "f32", "0.5"],
        ["a.text", "str", '"' + "x" * 199 + "…"],
        ["a.u8", "u8", "7"],
    ]
    assert lines[0].endswith("[0, 1, 2, 3, 4, 5, 6, 7, … 20 in all]")
    assert main([path, "--json", "--keys", "a.list"]) == 0
    assert json.loads(capsys.readouterr().out) == {"a.list": list(range(20))}
    assert main([path, "--keys", "nothing"]) == 3
    assert capsys.readouterr().err == "blazar-gguf: no key matches 'nothing'\n"


def test_templates_are_printed_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = (
        GgufWriter("llama").add("tokenizer.chat_template", "{{ a }}\n").add("tokenizer.chat_template.rag", "{{ b }}")
    )
    path = str(writer.write(tmp_path / "m.gguf"))
    assert main([path, "--template"]) == 0
    assert capsys.readouterr().out == "{{ a }}\n"
    assert main([path, "--template", "rag"]) == 0
    assert capsys.readouterr().out == "{{ b }}\n"
    assert main([path, "--template", "tools"]) == 3
    assert capsys.readouterr().err == "blazar-gguf: no template 'tools'; there are default, rag\n"
    assert main([path, "--template", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"default": "{{ a }}\n", "rag": "{{ b }}"}


def test_a_model_without_a_template_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", chat_template=None)
    assert main([str(path), "--template"]) == 3
    assert "the file has no chat template" in capsys.readouterr().err


def test_tensors_are_listed_with_their_sizes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = (
        GgufWriter("llama").add_tensor("a.weight", (64, 2), "Q8_0", bytes(136)).add_tensor("s", (), "F32", bytes(4))
    )
    path = str(writer.write(tmp_path / "m.gguf"))
    assert main([path, "--tensors"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["a.weight", "Q8_0", "64", "x", "2", "136", "bytes"]
    assert lines[1].split() == ["s", "F32", "scalar", "4", "bytes"]
    assert lines[2] == "2 tensors, 129 parameters, 140 bytes"
    assert main([path, "--tensors", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {
        "name": "a.weight",
        "type": "Q8_0",
        "dims": [64, 2],
        "offset": 0,
        "bytes": 136,
    }


def test_as_a_program_it_survives_a_reader_that_leaves(tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", layers=200)
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "blazar_gguf", str(path), "--tensors"],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_wrong_use_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["m.gguf", "--tensors", "--template"])
    assert caught.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (246587904, "235.2 MiB"), (5 << 40, "5.0 TiB")],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert human_bytes(size) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1500, "1.5 K"), (268098176, "268.1 M"), (7_240_000_000, "7.2 B")]
)
def test_counts_for_people(count: int, text: str) -> None:
    assert human_count(count) == text

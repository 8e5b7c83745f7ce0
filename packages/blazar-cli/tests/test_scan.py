"""``blazar models scan``: what is found where other programs keep their files."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from blazar_cli.app import build_app
from blazar_cli.scanning import known_directories
from blazar_gguf.testing import tiny_model


@pytest.fixture(autouse=True)
def own_directories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATA", "CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))


def scan(*arguments: str) -> dict[str, list[dict[str, object]]]:
    result = CliRunner().invoke(build_app(), ["models", "scan", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, list[dict[str, object]]] = json.loads(result.output)
    return found


def test_models_are_found_once_and_what_is_none_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "someone" / "repo"
    folder.mkdir(parents=True)
    (folder / "one-Q4_0.gguf").write_bytes(tiny_model("llama").to_bytes())
    (folder / ".two.gguf").write_bytes(tiny_model("llama").to_bytes())
    (folder / "damaged.gguf").write_bytes(b"GGUF")
    (folder / "notes.txt").write_text("not a model")
    assert [row["name"] for row in scan(str(tmp_path / "models"))["added"]] == ["one-q4_0"]
    assert scan(str(tmp_path / "models"))["added"] == []


def test_the_known_places_are_those_that_exist(tmp_path: Path) -> None:
    studio = tmp_path / ".lmstudio" / "models"
    hub = tmp_path / "hf" / "hub"
    for directory in (studio, hub):
        directory.mkdir(parents=True)
    assert known_directories({}, tmp_path) == (studio,)
    assert known_directories({"HF_HOME": str(tmp_path / "hf")}, tmp_path) == (studio, hub)


def test_nothing_named_is_a_mistake_that_teaches() -> None:
    result = CliRunner().invoke(build_app(), ["models", "scan"])
    assert result.exit_code == 2
    assert "--known" in result.output

"""An Ollama store becomes rows by hardlink; nothing in it changes."""

import hashlib
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from blazar_cli.app import build_app
from blazar_cli.ollama_store import read_ollama_store
from blazar_cli.testing import typed_gguf
from blazar_gguf.testing import tiny_model
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.types import ModelRow

MEDIA = "application/vnd.ollama.image."


class OllamaStore:
    """Writes what Ollama writes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "blobs").mkdir(parents=True)

    def add(self, name: str, **layers: bytes) -> None:
        """Add ``host/namespace/model/tag`` with a layer a keyword."""
        listed = []
        for kind, data in layers.items():
            digest = hashlib.sha256(data).hexdigest()
            (self.directory / "blobs" / f"sha256-{digest}").write_bytes(data)
            listed.append({"mediaType": f"{MEDIA}{kind}", "digest": f"sha256:{digest}", "size": len(data)})
        manifest = self.directory / "manifests" / name
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(json.dumps({"schemaVersion": 2, "layers": listed}))

    def files(self) -> set[tuple[str, int]]:
        return {(str(path), path.stat().st_size) for path in self.directory.rglob("*") if path.is_file()}


@pytest.fixture
def ollama(tmp_path: Path) -> OllamaStore:
    return OllamaStore(tmp_path / "ollama")


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DATA", "CONFIG", "CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    return tmp_path / "data" / "blazar"


def rows(data_dir: Path) -> dict[str, ModelRow]:
    with Store(Layout(data_dir)) as store:
        return {row.name: row for row in store.list_models()}


def take_over(directory: Path) -> list[dict[str, str]]:
    result = CliRunner().invoke(build_app(), ["import", "ollama", str(directory), "--json"])
    assert result.exit_code == 0, result.output
    found: list[dict[str, str]] = json.loads(result.output)
    return found


def test_models_become_rows_that_share_their_bytes_with_the_store(ollama: OllamaStore, data_dir: Path) -> None:
    weights = tiny_model("llama").to_bytes()
    ollama.add("registry.ollama.ai/library/tiny/1b", model=weights)
    before = ollama.files()
    (done,) = take_over(ollama.directory)
    row = rows(data_dir)["tiny:1b"]
    blob = ollama.directory / "blobs" / f"sha256-{hashlib.sha256(weights).hexdigest()}"
    assert row.path.samefile(blob)
    assert row.digest == hashlib.sha256(weights).hexdigest()
    assert done["left_out"] == ""
    assert ollama.files() == before


def test_what_a_model_was_made_with_comes_along(ollama: OllamaStore, data_dir: Path) -> None:
    go = "{{ if .System }}{{ .System }}{{ end }}{{ .Prompt }}"
    adapter = b"a LoRA adapter"
    ollama.add(
        "registry.ollama.ai/library/tiny/1b",
        model=tiny_model("llama").to_bytes(),
        params=b'{"num_ctx": 4096, "stop": ["<|end|>"], "temperature": 1, "num_batch": 64, "warp": 9, "top_k": "x"}',
        system=b"Be brief.",
        template=go.encode(),
        license=b"MIT\n",
        messages=b'[{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}, {"role": "odd"}]',
        adapter=adapter,
    )
    (done,) = take_over(ollama.directory)
    overlay = rows(data_dir)["tiny:1b"].overlay
    assert overlay.parameters == {"num_ctx": 4096, "stop": ["<|end|>"], "temperature": 1.0, "num_batch": 64}
    assert (overlay.system, overlay.template, overlay.license) == ("Be brief.", go, "MIT")
    assert [turn["role"] for turn in overlay.messages] == ["user", "assistant"]
    assert [path.read_bytes() for path in overlay.adapters] == [adapter]
    assert overlay.source == ""
    assert done["left_out"] == "num_batch = 64 (kept for `blazar show`), warp = 9, top_k = x"


def test_a_projector_is_linked_too_and_goes_with_its_row(ollama: OllamaStore, data_dir: Path, tmp_path: Path) -> None:
    vision = typed_gguf(tmp_path / "mmproj.gguf", "mmproj").read_bytes()
    ollama.add("registry.ollama.ai/library/eye/1b", model=tiny_model("llama").to_bytes(), projector=vision)
    before = ollama.files()
    take_over(ollama.directory)
    row = rows(data_dir)["eye:1b"]
    assert row.mmproj_path is not None
    assert row.mmproj_path.is_relative_to(data_dir)
    assert "vision" in row.capabilities
    assert CliRunner().invoke(build_app(), ["models", "rm", "eye:1b"]).exit_code == 0
    assert not list((data_dir / "models").rglob("*.gguf"))
    assert ollama.files() == before


def test_a_second_import_adds_nothing_and_removing_a_row_leaves_the_store_alone(
    ollama: OllamaStore, data_dir: Path
) -> None:
    ollama.add("registry.ollama.ai/library/tiny/1b", model=tiny_model("llama").to_bytes())
    before = ollama.files()
    take_over(ollama.directory)
    assert [one["outcome"] for one in take_over(ollama.directory)] == ["there already"]
    assert CliRunner().invoke(build_app(), ["models", "rm", "tiny:1b"]).exit_code == 0
    assert rows(data_dir) == {}
    assert ollama.files() == before


@pytest.mark.parametrize(
    ("manifest", "name"),
    [
        pytest.param("registry.ollama.ai/library/tiny/latest", "tiny:latest", id="library"),
        pytest.param("registry.ollama.ai/someone/tiny/q4", "someone/tiny:q4", id="somebody's"),
        pytest.param("hf.co/owner/repo/Q4_K_M", "hf.co/owner/repo:Q4_K_M", id="from-the-hub"),
    ],
)
def test_names_are_those_that_ollama_lists(ollama: OllamaStore, manifest: str, name: str) -> None:
    ollama.add(manifest, model=tiny_model("llama").to_bytes())
    assert [model.name for model in read_ollama_store(ollama.directory)] == [name]


def test_manifests_without_weights_or_sense_are_passed_over(ollama: OllamaStore) -> None:
    ollama.add("registry.ollama.ai/library/cloud/latest", system=b"far away")
    broken = ollama.directory / "manifests/registry.ollama.ai/library/broken/latest"
    broken.parent.mkdir(parents=True)
    broken.write_text('{"layers": [{"digest": "../../etc/passwd"}]}')
    assert list(read_ollama_store(ollama.directory)) == []


def test_what_is_no_model_is_left_out_and_said(ollama: OllamaStore, data_dir: Path) -> None:
    ollama.add("registry.ollama.ai/library/odd/latest", model=b"not a model at all")
    (done,) = take_over(ollama.directory)
    assert done["outcome"].startswith("left out:")
    assert rows(data_dir) == {}
    assert not list((data_dir / "models").rglob("*.gguf"))

"""``blazar pull``, ``fit`` and ``rm`` by name, in this process, against a hub on the loopback."""

import json
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from blazar_cli.app import build_app
from blazar_gguf.testing import tiny_model
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.types import ModelRow
from blazar_supervisor.testing.hub import Fault, FaultyHub, running_hub

REPOSITORY = "someone/tiny-GGUF"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyHub]:
    with running_hub() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.base_url)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield hub


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DATA", "CONFIG", "CACHE", "STATE", "RUNTIME"):
        monkeypatch.setenv(f"XDG_{name}_{'DIR' if name == 'RUNTIME' else 'HOME'}", str(tmp_path / name.lower()))
    for name in ("BLAZAR_HOST", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "data" / "blazar"


def blazar(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(build_app(), list(arguments))
    return result.exit_code, result.output


def content(size: int = 2 << 20) -> bytes:
    whole = tiny_model("llama").to_bytes()
    return whole + random.Random(size).randbytes(max(0, size - len(whole)))


def rows(data_dir: Path) -> tuple[ModelRow, ...]:
    with Store(Layout(data_dir)) as store:
        return tuple(store.list_models())


def test_a_pulled_model_is_a_row_that_knows_it_was_pulled(hub: FaultyHub, data_dir: Path) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", content(), Fault.TRUNCATED, times=1)
    status, said = blazar("pull", f"{REPOSITORY}:Q4_K_M", "--json")
    assert status == 0, said
    (row,) = rows(data_dir)
    assert (row.name, row.pulled, row.digest) == (f"{REPOSITORY}:Q4_K_M", True, file.sha256)
    assert row.path.read_bytes() == file.content
    assert row.path.is_relative_to(data_dir / "models")


def test_pulling_twice_fetches_once_and_keeps_one_row(hub: FaultyHub, data_dir: Path) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", content())
    for _ in range(2):
        assert blazar("pull", f"{REPOSITORY}:Q4_K_M")[0] == 0
    assert file.sent == len(file.content) + 16
    assert len(rows(data_dir)) == 1


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        pytest.param(("pull", "nobody/nothing"), 6, "no repository", id="no-such-repository"),
        pytest.param(("pull", "nonsense"), 10, "blazar models search", id="no-short-name"),
        pytest.param(("pull",), 2, "name what to pull", id="nothing-named"),
        pytest.param(("pull", "--list"), 0, "Nothing is being pulled", id="nothing-in-progress"),
        pytest.param(("models", "search", "embed"), 0, "nomic-ai/nomic-embed-text-v1.5-GGUF", id="search"),
        pytest.param(("models", "search", "zzz"), 0, "No short name matches", id="search-without-a-hit"),
    ],
)
@pytest.mark.usefixtures("hub", "data_dir")
def test_each_situation_has_its_status_and_its_words(arguments: tuple[str, ...], status: int, says: str) -> None:
    found, said = blazar(*arguments)
    assert (found, says in " ".join(said.split())) == (status, True), said


@pytest.mark.usefixtures("data_dir")
def test_fit_shows_what_a_repository_offers_before_anything_is_fetched(hub: FaultyHub) -> None:
    files = [
        hub.add(REPOSITORY, f"tiny-{label}.gguf", content(size))
        for label, size in (("Q4_K_M", 2 << 20), ("Q8_0", 4 << 20))
    ]
    status, said = blazar("fit", REPOSITORY, "--json")
    assert status == 0, said
    table = json.loads(said)
    assert table["takes"] == "Q8_0"
    assert [(one["variant"], one["fits"]) for one in table["variants"]] == [("Q4_K_M", "fits"), ("Q8_0", "fits")]
    assert sum(file.sent for file in files) < 1 << 20


def test_rm_deletes_what_was_pulled_and_leaves_what_was_added(hub: FaultyHub, data_dir: Path, tmp_path: Path) -> None:
    hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", content())
    own = tmp_path / "own.gguf"
    own.write_bytes(content())
    assert blazar("pull", f"{REPOSITORY}:Q4_K_M")[0] == 0
    assert blazar("models", "add", str(own))[0] == 0
    pulled = next(row.path for row in rows(data_dir) if row.pulled)
    assert blazar("models", "rm", f"{REPOSITORY}:Q4_K_M", "own")[0] == 0
    assert not pulled.exists()
    assert own.exists()
    assert blazar("models", "add", str(own))[0] == 0
    assert blazar("models", "rm", "own", "--weights")[0] == 0
    assert not own.exists()


def test_files_that_another_row_needs_stay(hub: FaultyHub, data_dir: Path) -> None:
    hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", content())
    assert blazar("pull", f"{REPOSITORY}:Q4_K_M")[0] == 0
    path = rows(data_dir)[0].path
    assert blazar("models", "add", str(path), "--name", "second")[0] == 0
    assert blazar("models", "rm", f"{REPOSITORY}:Q4_K_M")[0] == 0
    assert path.exists()


def test_a_pull_that_was_killed_goes_on_and_harms_nothing(hub: FaultyHub, data_dir: Path) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", content(), Fault.STALLS, times=1)
    command = [str(Path(sys.executable).with_name("blazar")), "pull", f"{REPOSITORY}:Q4_K_M"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while file.sent <= 16 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
    assert not list((data_dir / "models").rglob("[!.]*.gguf"))
    assert rows(data_dir) == ()
    assert blazar("pull", f"{REPOSITORY}:Q4_K_M")[0] == 0
    assert rows(data_dir)[0].path.read_bytes() == file.content
    assert {path.name for path in rows(data_dir)[0].path.parent.iterdir()} == {"tiny-Q4_K_M.gguf"}

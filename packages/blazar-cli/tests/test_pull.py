"""``blazar pull``, ``fit`` and ``rm`` by name, in this process, against a hub on the loopback."""

import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from blazar_budget import Memory
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


@pytest.mark.usefixtures("data_dir")
def test_search_can_leave_out_what_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = json.loads(blazar("models", "search", "--json")[1])
    monkeypatch.setattr("blazar_cli.pulling.machine_memory", lambda: Memory(4 << 30))
    fitting = json.loads(blazar("models", "search", "--fits", "--json")[1])
    assert 0 < len(fitting) < len(everything)
    # At 4 bit, with room for the context.
    assert max(one["parameters"] for one in fitting) * 0.62 < 0.85 * (4 << 30)
    assert [one for one in everything if one in fitting] == fitting


def safetensors(*tensors: tuple[str, str, list[int]]) -> bytes:
    """Return a file of safetensors with zeros in it."""
    header, at = {}, 0
    for name, dtype, shape in tensors:
        size = math.prod(shape) * {"BF16": 2, "F32": 4, "I32": 4, "U32": 4}[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    return len(text).to_bytes(8, "little") + text + bytes(at)


PLAIN = "someone/tiny"
CONFIG: dict[str, object] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "max_position_embeddings": 4096,
}


def add_directory(hub: FaultyHub, repository: str = PLAIN, parts: int = 2, **config: object) -> None:
    hub.add(repository, "config.json", json.dumps({**CONFIG, **config}).encode())
    hub.add(repository, "tokenizer_config.json", json.dumps({"chat_template": "{% if tools %}x{% endif %}"}).encode())
    for number in range(1, parts + 1):
        name = f"model-{number:05d}-of-00002.safetensors"
        hub.add(repository, name, safetensors((f"w{number}", "BF16", [10, 20]), (f"b{number}", "BF16", [5])))


def test_a_directory_of_safetensors_is_pulled_whole_when_it_is_named(hub: FaultyHub, data_dir: Path) -> None:
    add_directory(hub)
    status, said = blazar("pull", f"{PLAIN}:safetensors")
    assert status == 0, said
    (row,) = rows(data_dir)
    assert (row.name, row.format, row.arch, row.quant) == (f"{PLAIN}:safetensors", "safetensors", "llama", "BF16")
    assert (row.params, row.ctx_train, row.pulled) == (410, 4096, True)
    assert row.capabilities == ("completion", "tools")
    assert row.path == data_dir / "models" / "someone" / "tiny"
    assert {path.name for path in row.path.iterdir()} == set(hub.files[PLAIN])
    # No engine of this version serves it, which is said without one being started; it can be named again and removed.
    assert "only the size is known" in blazar("fit", f"{PLAIN}:safetensors")[1]
    assert blazar("cp", f"{PLAIN}:safetensors", "second")[0] == 0
    second = next(row for row in rows(data_dir) if row.name == "second")
    assert {path.name for path in second.path.iterdir()} == set(hub.files[PLAIN])
    assert blazar("rm", f"{PLAIN}:safetensors")[0] == 0
    assert not row.path.exists()
    assert blazar("rm", "second")[0] == 0
    assert not second.path.exists()


def test_what_no_installed_engine_serves_is_not_fetched_by_itself(hub: FaultyHub, data_dir: Path) -> None:
    add_directory(hub)
    status, said = blazar("pull", PLAIN)
    assert status == 10
    assert "a safetensors directory needs sglang or mistralrs, and no such engine is installed" in said
    assert f"`blazar pull {PLAIN}:safetensors`" in said
    assert not list((data_dir / "models").rglob("*.safetensors"))
    table = json.loads(blazar("fit", PLAIN, "--json")[1])
    assert table["takes"] is None
    (variant,) = table["variants"]
    assert (variant["kind"], variant["fits"]) == ("safetensors", "unknown")
    assert "only the size is known" in variant["detail"]


def test_split_safetensors_with_a_part_missing_are_refused_before_anything_is_fetched(
    hub: FaultyHub, data_dir: Path
) -> None:
    add_directory(hub, parts=1)
    status, said = blazar("pull", f"{PLAIN}:safetensors")
    assert status == 10
    assert "it lacks part 2 of 2" in said
    assert not list((data_dir / "models").rglob("*.safetensors"))


@pytest.mark.parametrize(
    ("name", "config", "expected"),
    [
        pytest.param("m", {"quantization_config": {"quant_method": "awq"}}, ("safetensors", "AWQ"), id="awq"),
        pytest.param("m", {"quantization": {"group_size": 64, "bits": 4}}, ("mlx", "MLX"), id="mlx"),
        pytest.param("m", {"vision_config": {"depth": 2}}, ("safetensors", "BF16"), id="vision"),
        pytest.param("m", {"architectures": ["BertModel"]}, ("safetensors", "BF16"), id="embedder"),
    ],
)
def test_directories_are_added_where_they_are(
    data_dir: Path, tmp_path: Path, name: str, config: dict[str, object], expected: tuple[str, str]
) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    (folder / "model.safetensors").write_bytes(safetensors(("w", "BF16", [4, 4])))
    status, said = blazar("models", "add", str(folder))
    assert status == 0, said
    (row,) = rows(data_dir)
    assert (row.format, row.quant) == expected
    assert ("vision" in row.capabilities) is ("vision_config" in config)
    assert ("embedding" in row.capabilities) is ("BertModel" in str(config))
    assert blazar("doctor", "--json")[1].count('"model m"') == 1


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        pytest.param(lambda data: data[:-3], "ends 3 bytes before its last tensor", id="cut short"),
        pytest.param(lambda data: data[:4], "no safetensors file", id="no header"),
        pytest.param(lambda data: data[:8] + b"[" + data[9:], "makes no sense", id="no JSON"),
        pytest.param(lambda data: (1 << 40).to_bytes(8, "little") + data[8:], "no safetensors file", id="too long"),
    ],
)
@pytest.mark.usefixtures("data_dir")
def test_damaged_safetensors_are_refused(tmp_path: Path, damage: Callable[[bytes], bytes], says: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "model.safetensors").write_bytes(damage(safetensors(("w", "BF16", [4, 4]))))
    status, said = blazar("models", "add", str(tmp_path))
    assert (status, says in said) == (12, True), said


def test_the_parts_of_a_diffusion_model_are_one_row(hub: FaultyHub, data_dir: Path) -> None:
    hub.add(REPOSITORY, "flux-Q4_0.gguf", content())
    hub.add(REPOSITORY, "ae.safetensors", safetensors(("v", "F32", [2])))
    hub.add(REPOSITORY, "text_encoders/t5xxl_fp8.safetensors", safetensors(("t", "F32", [3])))
    assert "a set of diffusion components needs sdcpp" in blazar("pull", REPOSITORY)[1]
    status, said = blazar("pull", f"{REPOSITORY}:Q4_0")
    assert status == 0, said
    (row,) = rows(data_dir)
    assert [(flag, path.name) for flag, path in row.components] == [
        ("--diffusion-model", "flux-Q4_0.gguf"),
        ("--t5xxl", "t5xxl_fp8.safetensors"),
        ("--vae", "ae.safetensors"),
    ]
    assert row.capabilities == ("image",)
    assert blazar("cp", row.name, "art")[0] == 0
    assert blazar("rm", row.name)[0] == 0
    (art,) = rows(data_dir)
    assert all(path.is_file() for _, path in art.components)
    assert blazar("rm", "art")[0] == 0
    assert not [path for path in (data_dir / "models").rglob("*") if path.is_file()]


@pytest.mark.parametrize("source", [f"{REPOSITORY}:Q4_K_M", f"hf.co/{REPOSITORY}"])
def test_a_model_is_made_from_one_that_is_pulled_for_it(
    hub: FaultyHub, data_dir: Path, tmp_path: Path, source: str
) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", content())
    recipe = tmp_path / "Modelfile"
    recipe.write_text(f"FROM {source}\nSYSTEM Be brief.\n")
    for _ in range(2):
        status, said = blazar("create", "brief", "-f", str(recipe))
        assert status == 0, said
    made, pulled = sorted(rows(data_dir), key=lambda row: row.name)
    assert (made.name, made.overlay.system, made.path) == ("brief", "Be brief.", pulled.path)
    assert pulled.name == f"{REPOSITORY}:Q4_K_M"
    assert file.sent < 2 * len(file.content)
    status, said = blazar("create", "other", "--from", "nobody/nothing")
    assert (status, "no repository" in said) == (6, True)


def test_a_pull_that_was_killed_goes_on_and_harms_nothing(hub: FaultyHub, data_dir: Path) -> None:
    file = hub.add(REPOSITORY, "tiny-Q4_K_M.gguf", content(), Fault.STALLS, times=1)
    command = [str(Path(sys.executable).with_name("blazar")), "pull", f"{REPOSITORY}:Q4_K_M"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while file.sent <= 16:
            assert time.monotonic() < deadline, "the pull has not begun"
            time.sleep(0.05)  # the hub counts bytes and tells nobody
        process.kill()
    assert not list((data_dir / "models").rglob("[!.]*.gguf"))
    assert rows(data_dir) == ()
    assert blazar("pull", f"{REPOSITORY}:Q4_K_M")[0] == 0
    assert rows(data_dir)[0].path.read_bytes() == file.content
    assert {path.name for path in rows(data_dir)[0].path.parent.iterdir()} == {"tiny-Q4_K_M.gguf"}

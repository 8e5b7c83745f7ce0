"""What the knobs cost: the launch that the budget judges is read from the same settings as the arguments."""

from dataclasses import replace
from pathlib import Path

import pytest

from blazar_budget import HOST, Launch, Offload, kv_cache
from blazar_gguf import read_metadata_file
from blazar_gguf.testing import write_tiny_model
from blazar_store.settings import parse_settings
from blazar_store.testing import make_model
from blazar_supervisor.engines.llamacpp.knobs import FFN_PATTERN
from blazar_supervisor.engines.llamacpp.memory_flags import launch_of
from blazar_supervisor.engines.llamacpp.speculation import kinds_wished
from blazar_supervisor.residency.planner import knobs_for

EMPTY = Launch(ctx=0, parallel=4, unified=True)


def launch(lines: str, *, kinds: tuple[str, ...] = (), mmproj: Path | None = None, ctx: int = 0) -> Launch:
    row = make_model("tiny", mmproj_path=mmproj)
    knobs = knobs_for(row, parse_settings(f"[models.tiny]\n{lines}", path=Path("c")))
    return launch_of(row, replace(knobs, kinds=kinds), ctx=ctx)


def of_size(path: Path, size: int) -> Path:
    path.write_bytes(b"x" * size)
    return path


def test_without_settings_it_is_the_default_launch() -> None:
    assert launch("") == EMPTY


@pytest.mark.parametrize(
    ("lines", "field", "value"),
    [
        pytest.param("slots = 2", "parallel", 2, id="slots"),
        pytest.param("deterministic = true", "unified", False, id="deterministic"),
        pytest.param("ubatch = 2048", "ubatch", 2048, id="ubatch"),
        pytest.param('cache_type_k = "q8_0"', "type_k", "q8_0", id="cache-type-k"),
        pytest.param('cache_type_v = "q4_0"', "type_v", "q4_0", id="cache-type-v"),
        pytest.param("gpu_layers = 7", "offload", Offload(gpu_layers=7), id="gpu-layers"),
        pytest.param('gpu_layers = "all"', "offload", Offload(), id="gpu-layers-all"),
        pytest.param('tensor_preset = "cpu-moe"', "offload", Offload(cpu_moe=True), id="cpu-moe"),
        pytest.param('tensor_preset = "cpu-moe:3"', "offload", Offload(n_cpu_moe=3), id="cpu-moe-of-some-layers"),
        pytest.param('tensor_preset = "ffn-cpu"', "offload", Offload(overrides=((FFN_PATTERN, HOST),)), id="ffn-cpu"),
        pytest.param('extra_args = ["-ub", "64"]', "ubatch", 64, id="own-ubatch"),
        pytest.param('extra_args = ["--flash_attn=off"]', "flash_attn", "off", id="own-flash"),
        pytest.param('extra_args = ["--swa-full"]', "swa_full", True, id="own-window"),
        pytest.param('extra_args = ["-ctk", "q8_0"]', "type_k", "q8_0", id="own-cache-type"),
        pytest.param('extra_args = ["-nkvo"]', "offload", Offload(kv_on_host=True), id="own-cache-on-host"),
        pytest.param('extra_args = ["-ngl", "5"]', "offload", Offload(gpu_layers=5), id="own-layers"),
        pytest.param('extra_args = ["-ts", "3,1"]', "offload", Offload(tensor_split=(3.0, 1.0)), id="own-split"),
        pytest.param(
            'extra_args = ["-ot", "ffn_down=CPU,attn=CUDA1,(=CPU"]',
            "offload",
            Offload(overrides=(("ffn_down", HOST), ("attn", "CUDA1"))),
            id="own-placement",
        ),
        pytest.param('extra_args = ["--spec-type", "draft-mtp"]', "offload", Offload(mtp=True), id="own-heads"),
    ],
)
def test_knob_reaches_the_budget(lines: str, field: str, value: object) -> None:
    assert getattr(launch(lines), field) == value


def test_heads_are_loaded_when_something_guesses_with_them() -> None:
    assert launch("", kinds=("draft-mtp",)).offload.mtp
    assert not launch("", kinds=("ngram-mod",)).offload.mtp


def test_projector_and_adapters_are_counted_by_their_size(tmp_path: Path) -> None:
    projector = of_size(tmp_path / "mm.gguf", 1000)
    one, two = of_size(tmp_path / "one.gguf", 300), of_size(tmp_path / "two.gguf", 20)
    adapters = f'lora = ["{one}", {{ path = "{two}", scale = 0.5 }}]'
    assert launch("", mmproj=projector).extra_device_bytes == 1000
    assert launch('mmproj_policy = "skip"', mmproj=projector).extra_device_bytes == 0
    assert launch(adapters, mmproj=projector).extra_device_bytes == 1320
    assert launch(f'extra_args = ["--lora-scaled", "{two}:0.5"]').extra_device_bytes == 20
    assert launch(f'extra_args = ["-mm", "{one}"]\nmmproj_policy = "skip"', mmproj=projector).extra_device_bytes == 300


def test_draft_model_is_counted_with_its_cache_at_the_context_in_use(tmp_path: Path) -> None:
    path = tmp_path / "draft.gguf"
    write_tiny_model(path)
    weights = path.stat().st_size
    lines = f'spec_draft_model = "{path}"'
    kinds = ("draft-simple",)
    meta = read_metadata_file(path)

    def cache(ctx: int) -> int:
        return kv_cache(meta, ctx=ctx, parallel=4, unified=True, type_k="f16", type_v="f16").total_bytes

    small, large = launch(lines, kinds=kinds, ctx=1024), launch(lines, kinds=kinds, ctx=4096)
    assert small.extra_device_bytes == weights + cache(1024)
    assert large.extra_device_bytes == weights + cache(4096) > small.extra_device_bytes
    assert launch(lines, ctx=1024).extra_device_bytes == 0


@pytest.mark.parametrize(
    ("lines", "kinds"),
    [
        ("", ()),
        ('spec = "off"\nspec_draft_model = "/d"', ()),
        ('spec_draft_model = "/d"', ("draft-simple",)),
        ('spec = "auto"\nspec_draft_model = "/d"', ("draft-simple",)),
        ('spec = "ngram-mod,draft-mtp"', ("ngram-mod", "draft-mtp")),
    ],
)
def test_settings_alone_name_kinds_of_speculation(lines: str, kinds: tuple[str, ...]) -> None:
    settings = parse_settings(f"[models.tiny]\n{lines}", path=Path("c"))
    assert kinds_wished(settings.for_model("tiny").written) == kinds


def test_a_draft_model_that_is_none_costs_its_size(tmp_path: Path) -> None:
    broken = of_size(tmp_path / "draft.gguf", 50)
    assert launch(f'extra_args = ["-md", "{broken}"]').extra_device_bytes == 50

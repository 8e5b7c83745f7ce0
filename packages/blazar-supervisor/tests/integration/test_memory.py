"""Memory decides: the context that is chosen, what is refused before a spawn, who makes room for whom."""

import asyncio
from dataclasses import replace

import pytest

from blazar_budget.machine import Gpu, Machine
from blazar_routing.errors import ModelDoesNotFit, ModelFileMissing, ProfileRejected
from blazar_store.testing import make_engine
from blazar_stubs import install_stub
from blazar_supervisor.testing.house import House

GIB = 1 << 30


async def test_an_explicit_context_is_passed_on_and_one_for_all_models_means_at_most_training(house: House) -> None:
    house.machine = Machine(ram_total=64 * GIB, ram_available=60 * GIB)
    house.model()
    house.configure(models={"tiny": {"ctx": 2048}})
    assert (await house.host.explain("tiny")).ctx_tokens == 2048
    house.configure(models={"tiny": {}}, defaults={"ctx": 100_000})
    profile = await house.host.explain("tiny")
    assert profile.ctx_tokens == 4096
    assert "trained for" in " ".join(profile.warnings)


async def test_the_default_context_is_that_of_training_where_it_plainly_fits(house: House) -> None:
    house.machine = Machine(ram_total=64 * GIB, ram_available=60 * GIB)
    house.model()
    profile = await house.host.explain("tiny")
    assert (profile.ctx_tokens, profile.verdict) == (4096, "fit")
    assert profile.need_host_bytes > 0


async def test_a_model_that_cannot_fit_is_refused_with_the_budgets_words_and_nothing_is_spawned(house: House) -> None:
    house.machine = Machine(ram_total=GIB, ram_available=GIB // 4)
    model = house.model()
    with pytest.raises(ModelDoesNotFit) as caught:
        await house.lend()
    assert "ctx" in str(caught.value)
    assert model.spawns == 0
    assert house.host.residents() == ()


async def test_an_idle_model_makes_room_for_another(house: House) -> None:
    # Each needs its overhead of 700 MiB and little else, so there is room for one.
    house.machine = Machine(ram_total=2 * GIB, ram_available=int(1.5 * GIB))
    one, two = house.model("one"), house.model("two")
    (await house.lend("one")).release()
    house.machine = Machine(ram_total=2 * GIB, ram_available=int(0.8 * GIB))
    (await house.lend("two")).release()
    assert [view.child for view in house.host.residents()] == ["two"]
    (await house.lend("one")).release()
    assert (one.spawns, two.spawns) == (2, 1)


async def test_a_stream_ends_before_its_model_makes_room(house: House) -> None:
    house.configure(max_loaded_models=1)
    house.model("one")
    house.model("two")
    lease = await house.lend("one")
    other = asyncio.ensure_future(house.lend("two"))
    done, _ = await asyncio.wait([other], timeout=0.5)
    assert not done
    lease.release()
    (await other).release()
    assert [view.child for view in house.host.residents()] == ["two"]


GPU = Gpu(name="Some GPU", total=8 * GIB, free=8 * GIB)


@pytest.mark.parametrize(
    ("variant", "gpus", "on_device"),
    [
        pytest.param("one-gpu", (GPU,), True, id="both-know-it"),
        pytest.param("b10434", (GPU,), False, id="the-build-cannot-use-it"),
        pytest.param("one-gpu", (), True, id="only-the-build-knows-it"),
    ],
)
async def test_accelerators_count_where_the_build_can_use_them(
    house: House, variant: str, gpus: tuple[Gpu, ...], on_device: bool
) -> None:
    house.machine = Machine(ram_total=64 * GIB, ram_available=60 * GIB, gpus=gpus)
    engine = install_stub(house.root / variant, variant=variant)
    house.engines[:] = [make_engine("local", server_path=engine, active=True)]
    house.model()
    profile = await house.host.explain("tiny")
    assert (profile.need_device_bytes > 0) is on_device
    (await house.lend()).release()


async def test_the_prompt_cache_is_cut_to_half_of_what_is_spare(house: House) -> None:
    house.machine = Machine(ram_total=64 * GIB, ram_available=60 * GIB)
    house.model()
    assert (await house.host.explain("tiny")).cache_ram_mb == 8192
    house.machine = Machine(ram_total=8 * GIB, ram_available=4 * GIB)
    model = house.model("second")
    (await house.lend("second")).release()
    argv = model.events("spawn")[0]["argv"]
    assert 0 < int(argv[argv.index("--cache-ram") + 1]) < 2048


async def test_a_template_file_that_is_not_there_is_refused_before_the_start(house: House) -> None:
    model = house.model()
    house.configure(models={"tiny": {"chat_template_file": str(house.root / "none.jinja")}})
    with pytest.raises(ProfileRejected, match=r"none\.jinja"):
        await house.lend()
    assert model.spawns == 0


@pytest.mark.parametrize(
    ("setting", "value"),
    [("mcp_servers_config", "none"), ("spec_draft_model", "none"), ("lora", ["none"])],
    ids=["mcp", "draft", "adapter"],
)
async def test_a_file_beside_the_model_that_is_not_there_is_refused_before_the_start(
    house: House, setting: str, value: str | list[str]
) -> None:
    model = house.model()
    path = str(house.root / "none")
    house.configure(models={"tiny": {setting: [path] if isinstance(value, list) else path}})
    with pytest.raises(ProfileRejected) as caught:
        await house.lend()
    assert caught.value.reason == f"{setting} is not there: {path}"
    assert model.spawns == 0


async def test_a_projector_that_is_gone_is_refused_unless_it_is_skipped(house: House) -> None:
    house.model()
    house.rows["tiny"] = replace(house.rows["tiny"], mmproj_path=house.root / "gone.gguf")
    with pytest.raises(ModelFileMissing, match=r"gone\.gguf"):
        await house.lend()
    house.configure(models={"tiny": {"mmproj_policy": "skip"}})
    (await house.lend()).release()


async def test_accelerators_that_the_build_does_not_know_are_refused_and_none_means_none(house: House) -> None:
    house.machine = Machine(ram_total=64 * GIB, ram_available=60 * GIB, gpus=(GPU,))
    engine = install_stub(house.root / "one-gpu", variant="one-gpu")
    house.engines[:] = [make_engine("local", server_path=engine, active=True)]
    house.model()
    house.configure(models={"tiny": {"devices": ["CUDA7"]}})
    with pytest.raises(ProfileRejected, match="the engine knows no accelerator 'CUDA7'; it has CUDA0"):
        await house.host.explain("tiny")
    house.configure(models={"tiny": {"devices": ["CUDA0"]}})
    assert (await house.host.explain("tiny")).need_device_bytes > 0
    house.configure(models={"tiny": {"devices": ["none"]}})
    assert (await house.host.explain("tiny")).need_device_bytes == 0


async def test_an_extra_argument_that_the_build_lacks_is_refused_before_the_start(house: House) -> None:
    model = house.model()
    house.configure(models={"tiny": {"extra_args": ["--flsh-attn", "on"]}})
    with pytest.raises(ProfileRejected, match="the nearest it has is '--flash-attn'"):
        await house.lend()
    assert model.spawns == 0

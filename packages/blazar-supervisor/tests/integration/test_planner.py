"""Settings that shape no argument: which engine, how long a load may take, how long a model stays."""

import pytest

from blazar_routing.errors import LaneError, ProfileRejected
from blazar_store.settings import Settings
from blazar_store.testing import make_engine, make_model
from blazar_stubs import write_stub_model
from blazar_supervisor.engines.llamacpp.knobs import KNOBS
from blazar_supervisor.residency.planner import ModelPlanner
from blazar_supervisor.residency.ports import Plan
from blazar_supervisor.testing.house import House, until


async def planned(house: House, *, accepted: float | None = None) -> Plan:
    planner = ModelPlanner(
        models=house.rows.get,
        engines=lambda: house.engines,
        settings=lambda: house.settings,
        machine=lambda: house.machine,
        accepted=lambda _: accepted,
    )
    return await planner.plan("tiny", limit=None, refused_by=frozenset())


DECIDES: dict[str, tuple[object, str, object]] = {
    "load_timeout_secs": (7, "load_timeout_s", 7.0),
    "idle_timeout_secs": (9, "idle_s", 9.0),
    "engine": ("other", "profile.engine", "other"),
}


def test_every_knob_without_a_flag_has_its_case() -> None:
    assert {knob.setting for knob in KNOBS if not knob.flags} == DECIDES.keys()


@pytest.mark.parametrize("setting", DECIDES)
async def test_setting_decides_the_plan(house: House, setting: str) -> None:
    written, attribute, value = DECIDES[setting]
    text = {setting: written}
    house.model()
    house.engines.append(make_engine("other", server_path=house.engines[0].server_path))
    for changes in ({"models": {"tiny": text}}, {"defaults": text}):
        house.settings = Settings()
        before: object = await planned(house)
        house.configure(**changes)
        after: object = await planned(house)
        for name in attribute.split("."):
            before, after = getattr(before, name), getattr(after, name)
        assert (before != value, after) == (True, value)


async def test_without_a_pin_a_load_takes_what_suits_the_kind_and_idleness_unloads(house: House) -> None:
    house.model()
    plan = await planned(house)
    assert (plan.load_timeout_s, plan.idle_s) == (180.0, 1800.0)
    house.configure(idle_timeout_secs=0, load_timeout_secs=240)
    plan = await planned(house)
    assert (plan.load_timeout_s, plan.idle_s) == (240.0, None)


async def test_an_engine_that_is_not_there_is_refused(house: House) -> None:
    house.model()
    house.configure(models={"tiny": {"engine": "b99"}})
    says = r"unknown engine kind 'b99': .* of model 'tiny', in \[models\..tiny.\] .* an installed build \(local\)"
    with pytest.raises(LaneError, match=says):
        await planned(house)


async def test_a_context_beyond_training_is_refused_where_it_was_written_for_the_model(house: House) -> None:
    path = house.root / "tiny.gguf"
    write_stub_model(path, context_length=2048)
    house.rows["tiny"] = make_model("tiny", path=path, shards=(path,))
    house.configure(models={"TINY": {"ctx": 2049}})
    with pytest.raises(ProfileRejected, match=r"ctx = 2049 .* 2048 tokens .* set ctx = 2048, or stretch"):
        await planned(house)
    for fitting in ({"ctx": 2048}, {"ctx": 2049, "extra_args": ["--rope-scaling", "yarn"]}):
        house.configure(models={"tiny": fitting})
        assert (await planned(house)).profile.ctx_tokens == fitting["ctx"]
    # For every model it is a wish: those that cannot have it get what they can.
    house.configure(models={"tiny": {}}, defaults={"ctx": 32_768})
    profile = (await planned(house)).profile
    assert profile.ctx_tokens == 2048
    assert any("more than the 2048 tokens" in warning for warning in profile.warnings)


UNCHANGED = {"load_timeout_secs": 9, "idle_timeout_secs": 9, "request": {"strip": ["n"]}}
CHANGED = {"threads": 3, "idle_sleep_secs": 9, "ctx": 2048, "extra_args": ["--seed", "1"], "slots": 2}


@pytest.mark.parametrize("setting", [*UNCHANGED, *CHANGED])
async def test_only_what_shapes_a_child_makes_a_running_one_out_of_date(house: House, setting: str) -> None:
    house.model()
    (await house.lend()).release()
    house.configure(models={"tiny": {setting: {**UNCHANGED, **CHANGED}[setting]}})
    house.host.refresh()
    await until(lambda: house.state() in ({"ready"} if setting in UNCHANGED else {None}), "the edit is taken up")
    (await house.lend()).release()


async def test_another_transport_replaces_a_child(house: House) -> None:
    house.model()
    lease = await house.lend()
    house.configure(child_transport="unix")
    house.host.refresh()
    assert house.state() == "ready"
    assert lease.endpoint.socket_path is None
    lease.release()
    await until(lambda: house.state() is None, "the child goes")
    lease = await house.lend()
    assert lease.endpoint.socket_path is not None
    lease.release()


async def test_a_file_with_heads_guesses_with_them_until_they_guess_badly(house: House) -> None:
    path = house.root / "tiny.gguf"
    write_stub_model(path, architecture="qwen35", extra={"qwen35.nextn_predict_layers": 1})
    house.rows["tiny"] = make_model("tiny", path=path, shards=(path,), arch="qwen35")
    for accepted, guesses in ((None, True), (0.31, True), (0.29, False)):
        plan = await planned(house, accepted=accepted)
        assert ("draft-mtp" in plan.profile.args) is guesses, accepted
    house.configure(models={"tiny": {"spec": "off"}})
    assert "--spec-type" not in (await planned(house)).profile.args

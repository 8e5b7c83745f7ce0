"""Lending on real processes: the stub engine under the real host."""

import asyncio
import stat

import pytest

from blazar_routing.errors import LoadFailed, ModelStopped
from blazar_routing.ticket import Ticket
from blazar_store.layout import Layout
from blazar_supervisor import SlotLease
from blazar_supervisor.testing.house import House, ask, until


async def test_twenty_first_requests_make_one_child_and_all_are_served(house: House) -> None:
    model = house.model()
    held: list[SlotLease] = []

    async def client(number: int) -> None:
        lease = await house.lend()
        held.append(lease)
        status, text = await ask(lease, f"number {number}")
        lease.release()
        assert status == 200
        assert f"number {number}" in text

    await asyncio.gather(*(client(number) for number in range(20)))
    assert model.spawns == 1
    (view,) = house.host.residents()
    assert (view.state, view.in_flight, view.waiting, view.slots) == ("ready", 0, 0, 4)


async def test_a_child_is_started_with_everything_explicit_and_nothing_secret(house: House) -> None:
    model = house.model()
    lease = await house.lend()
    spawn = model.events("spawn")[0]
    argv = spawn["argv"]
    apikey = house.layout.apikey_file("tiny")
    for flag, value in {
        "-m": str(model.path),
        "--host": "127.0.0.1",
        "--alias": "tiny",
        "-c": "4096",
        "-np": "4",
        "-ub": "512",
        "-lv": "4",
        "--api-key-file": str(apikey),
    }.items():
        assert argv[argv.index(flag) + 1] == value
        assert argv.count(flag) == 1
    assert {"-kvu", "--no-ui", "--metrics", "--slots"} <= set(argv)
    secret = apikey.read_text().strip()
    assert lease.headers == {"Authorization": f"Bearer {secret}"}
    assert stat.S_IMODE(apikey.stat().st_mode) == 0o600
    assert secret not in " ".join(argv) + " ".join(spawn["environ"].values())
    lease.release()


async def test_the_environment_of_a_child_is_an_allow_list(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LLAMA_ARG_CTX_SIZE", "LLAMA_API_KEY", "HF_TOKEN", "AIP_MODE", "BLAZAR_API_KEY"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    model = house.model()
    house.host = house.open()
    (await house.lend()).release()
    environ = model.events("spawn")[0]["environ"]
    assert not {"LLAMA_ARG_CTX_SIZE", "LLAMA_API_KEY", "HF_TOKEN", "AIP_MODE", "BLAZAR_API_KEY"} & set(environ)
    assert environ["CUDA_VISIBLE_DEVICES"] == "0"
    assert environ["LD_LIBRARY_PATH"].split(":")[0] == str(house.root / "engine")


async def test_a_socket_whose_path_is_too_long_for_the_system_is_refused_with_the_ways_out(house: House) -> None:
    house.layout = Layout(house.root / ("d" * 120), short_root=house.root / ("s" * 120))
    house.layout.prepare()
    house.configure(child_transport="unix")
    model = house.model()
    host = house.open()
    with pytest.raises(LoadFailed, match=r"the path of its socket has \d+ bytes, and the system takes 103") as caught:
        await host.lend("tiny", Ticket(model="tiny"))
    assert 'child_transport = "tcp"' in str(caught.value)
    assert model.spawns == 0
    await host.close()


async def test_a_child_serves_on_a_unix_socket_where_that_is_configured(house: House) -> None:
    house.configure(child_transport="unix")
    model = house.model()
    lease = await house.lend()
    assert lease.endpoint.socket_path == house.layout.child_socket("tiny")
    assert (await ask(lease))[0] == 200
    argv = model.events("spawn")[0]["argv"]
    assert "--port" not in argv
    lease.release()


async def test_a_stop_tells_the_holders_and_the_next_request_gets_a_new_child(house: House) -> None:
    model = house.model()
    lease = await house.lend()
    revoked: list[Exception] = []
    lease.on_revoke(revoked.append)
    first = lease.child
    stopping = asyncio.ensure_future(house.host.unload("tiny"))
    await until(lambda: house.state() == "draining", "the child drains")
    late = asyncio.ensure_future(house.lend())
    lease.release()
    assert await stopping is True
    fresh = await late
    assert (fresh.child, revoked, model.spawns) == (first, [], 2)
    fresh.release()
    assert await house.host.unload("tiny") is True
    assert await house.host.unload("tiny") is False


async def test_a_stop_during_a_load_tells_those_who_wait(house: House) -> None:
    model = house.model(never_ready=True)
    waiting = asyncio.ensure_future(house.lend())
    await until(lambda: model.events("listening"), "the child listens")
    view = house.host.waiting("tiny")
    assert view is not None
    assert view.state == "loading"
    assert await house.host.unload("tiny") is True
    with pytest.raises(ModelStopped):
        await waiting
    assert house.processes() == []


async def test_all_who_wait_may_leave_while_it_loads_and_the_next_finds_it_warm(house: House) -> None:
    model = house.model(load_delay_s=0.3)
    waiting = [asyncio.ensure_future(house.lend()) for _ in range(3)]
    await until(lambda: model.spawns == 1, "the child is spawned")
    for request in waiting:
        request.cancel()
    await asyncio.wait(waiting)
    (await house.lend()).release()
    assert model.spawns == 1


async def test_figures_of_the_engine_are_what_listings_show(house: House) -> None:
    house.model(memory={"model_mib": 100, "kv_mib": 20, "output_mib": 1, "compute_mib": 9})
    (await house.lend()).release()
    await until(lambda: house.host.residents()[0].memory_bytes == 130 << 20, "the figures are read")
    assert house.host.residents()[0].device_bytes == 0


async def test_explain_shows_what_would_run_and_starts_nothing(house: House) -> None:
    model = house.model()
    profile = await house.host.explain("tiny")
    assert (profile.model, profile.engine, profile.ctx_tokens, profile.slots) == ("tiny", "local", 4096, 4)
    assert profile.args[:2] == ("-m", str(model.path))
    assert model.spawns == 0


async def test_hints_come_from_the_counters_of_an_engine(house: House) -> None:
    house.model()
    for _ in range(2):
        lease = await house.lend()
        await ask(lease, "a prompt that is asked twice, word for word, and so is known the second time", max_tokens=4)
        lease.release()
    await house.host.look_at_hints()
    (view,) = house.host.residents()
    assert view.cache_hint is not None
    assert 0.3 < view.cache_hint < 0.6
    assert view.spec_accept is None

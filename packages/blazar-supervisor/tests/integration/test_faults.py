"""What children do wrong, and what becomes of it (BC-31 among others: healthy but hung, deaf to SIGTERM, dying at start)."""

import asyncio
import signal

import aiohttp
import psutil
import pytest

from blazar_routing.errors import (
    BreakerOpen,
    EngineBinaryMissing,
    EngineCrashed,
    EngineMissing,
    EngineStalled,
    EngineUnreachable,
    LaneError,
    LoadFailed,
    LoadTimeout,
    ModelFileMissing,
    ModelNotFound,
    ModelUnreadable,
    ShuttingDown,
)
from blazar_store.testing import make_model
from blazar_supervisor.children.endpoint import find_free_port
from blazar_supervisor.testing.house import House, ask, until


async def test_a_failed_load_teaches_and_quotes_the_child(house: House) -> None:
    line = "tensor 'token_embd.weight' data is not within the file bounds, model is corrupted or incomplete"
    house.model(crash={"text": line})
    with pytest.raises(LoadFailed, match="cut short") as caught:
        await house.lend()
    assert "sha256" in caught.value.advice
    assert any(line in quoted for quoted in caught.value.tail)


async def test_an_unknown_architecture_is_tried_on_another_lane_once_and_then_teaches(house: House) -> None:
    model = house.model(crash={"text": "error loading model: unknown model architecture: 'llama'"})
    for _ in range(2):
        with pytest.raises(EngineMissing, match="the architecture 'llama' is unknown to local"):
            await house.lend()
    assert model.spawns == 1


async def test_three_deaths_in_a_row_open_the_breaker_and_a_stop_closes_it(house: House) -> None:
    model = house.model(crash={"text": "E srv  load_model: failed", "exit_code": 1, "first_spawns": 3})
    for _ in range(3):
        with pytest.raises(LoadFailed, match="srv  load_model: failed"):
            await house.lend()
    with pytest.raises(BreakerOpen, match="died 3 times in a row") as caught:
        await house.lend()
    assert "load_model: failed" in str(caught.value)
    assert model.spawns == 3
    await house.host.unload("tiny")
    (await house.lend()).release()
    assert model.spawns == 4


async def test_a_death_while_serving_is_told_from_a_disconnect(house: House) -> None:
    model = house.model(requests=[{"match": "boom", "exit_code": 139, "exit_after_tokens": 1}])
    lease = await house.lend()
    with pytest.raises(aiohttp.ClientError) as caught:
        await ask(lease, "boom", stream=True)
    error = await lease.explain_failure(caught.value)
    assert isinstance(error, EngineCrashed)
    assert "exit status 139" in str(error)
    lease.release()
    fresh = await house.lend()
    disconnect = await fresh.explain_failure(ConnectionResetError("reset by peer"))
    assert isinstance(disconnect, EngineUnreachable)
    assert "reset by peer" in str(disconnect)
    fresh.release()
    assert model.spawns == 2


async def test_a_child_that_ignores_sigterm_is_killed_and_reaped(house: House) -> None:
    house.configure(stop_grace_secs=1)
    house.model(ignore_sigterm=True)
    (await house.lend()).release()
    assert await house.host.unload("tiny") is True
    assert house.processes() == []


async def test_a_load_that_takes_too_long_is_stopped(house: House) -> None:
    house.configure(load_timeout_secs=1)
    house.model(never_ready=True)
    with pytest.raises(LoadTimeout, match="within 1 s"):
        await house.lend()
    assert house.processes() == []
    assert house.state() == "failed"


async def test_close_is_bounded_during_a_load_and_refuses_who_waits(house: House) -> None:
    model = house.model(never_ready=True, ignore_sigterm=True)
    waiting = asyncio.ensure_future(house.lend())
    await until(lambda: model.events("listening"), "the child listens")
    await asyncio.wait_for(house.host.close(), 30)
    with pytest.raises(ShuttingDown):
        await waiting
    with pytest.raises(ShuttingDown):
        await house.lend()
    assert house.processes() == []


async def test_hurry_cuts_draining_and_grace_short(house: House) -> None:
    house.configure(stop_grace_secs=600, drain_timeout_secs=600)
    house.model(ignore_sigterm=True)
    lease = await house.lend()
    revoked: list[LaneError] = []
    lease.on_revoke(revoked.append)
    closing = asyncio.ensure_future(house.host.close())
    await until(lambda: house.state() == "draining", "the child drains")
    house.host.hurry()
    await asyncio.wait_for(closing, 30)
    assert isinstance(revoked[0], ShuttingDown)
    lease.release()


async def test_a_sleeper_is_seen_without_waking_it_and_wakes_for_a_request(house: House) -> None:
    house.configure(idle_sleep_secs=1)
    model = house.model()
    (await house.lend()).release()
    await until(lambda: house.state() == "sleeping", "the child sleeps")
    assert house.host.residents()[0].state == "sleeping"
    lease = await house.lend()
    assert house.state() == "ready"
    assert (await ask(lease))[0] == 200
    lease.release()
    assert model.spawns == 1


async def test_a_failed_wake_is_a_load_failure(house: House) -> None:
    house.configure(idle_sleep_secs=1)
    model = house.model(wake={"fail": True})
    (await house.lend()).release()
    await until(lambda: house.state() == "sleeping", "the child sleeps")
    with pytest.raises(LoadFailed, match="failed to load"):
        await house.lend()
    model.script()
    (await house.lend()).release()
    assert model.spawns == 2


async def test_a_long_prefill_counts_as_progress(house: House) -> None:
    busy = house.model("busy", requests=[{"match": "long", "prefill_delay_s": 60.0}])
    lease = await house.lend("busy")
    working = asyncio.ensure_future(ask(lease, "long"))
    await until(lambda: busy.requests("/v1/chat/completions"), "the request has arrived")
    assert await lease.moved()
    working.cancel()
    await asyncio.wait([working])
    lease.release()


async def test_a_child_that_hangs_is_replaced_and_its_other_holders_are_told(house: House) -> None:
    model = house.model(requests=[{"match": "hang", "never_answer": True, "progress": False}])
    lease, neighbour = await house.lend(), await house.lend()
    revoked: list[LaneError] = []
    own: list[LaneError] = []
    neighbour.on_revoke(revoked.append)
    lease.on_revoke(own.append)
    hanging = asyncio.ensure_future(ask(lease, "hang"))
    await until(lambda: model.requests("/v1/chat/completions"), "the request has arrived")
    assert not await lease.moved()
    lease.condemn()
    lease.release()
    await until(lambda: revoked, "the neighbour is told")
    assert isinstance(revoked[0], EngineStalled)
    assert own == []
    neighbour.release()
    fresh = await house.lend()
    assert model.spawns == 2
    fresh.release()
    hanging.cancel()
    await asyncio.wait([hanging])


async def test_a_port_that_somebody_takes_first_is_tried_anew(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    async def answers_health(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # As another engine would: its health must not be taken for our child's.
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    blocker = await asyncio.start_server(answers_health, "127.0.0.1", 0)
    taken = blocker.sockets[0].getsockname()[1]
    ports = [taken]
    monkeypatch.setattr(
        "blazar_supervisor.residency.launcher.find_free_port", lambda: ports.pop() if ports else find_free_port()
    )
    model = house.model()
    (await house.lend()).release()
    assert model.spawns == 2
    blocker.close()
    await blocker.wait_closed()


async def test_a_file_that_is_gone_or_broken_is_refused_before_anything_is_started(house: House) -> None:
    house.rows["gone"] = make_model("gone", path=house.root / "gone.gguf", shards=())
    broken = house.root / "broken.gguf"
    broken.write_bytes(b"hello, I am no model")
    house.rows["broken"] = make_model("broken", path=broken, shards=(broken,))
    with pytest.raises(ModelFileMissing, match="blazar models rm gone"):
        await house.lend("gone")
    with pytest.raises(ModelUnreadable, match="cannot be served"):
        await house.lend("broken")
    with pytest.raises(ModelNotFound):
        await house.lend("nobody")
    assert house.host.residents() == ()


async def test_an_engine_that_is_gone_is_named(house: House) -> None:
    house.model()
    house.engines[0].server_path.unlink()
    with pytest.raises(EngineBinaryMissing, match="engine 'local' is gone"):
        await house.lend()
    house.engines.clear()
    with pytest.raises(EngineMissing, match="add-local"):
        await house.lend()


async def test_a_killed_child_is_reaped_at_once_and_listed_as_failed(house: House) -> None:
    house.model()
    (await house.lend()).release()
    pid = house.host.residents()[0].pid
    assert pid is not None
    psutil.Process(pid).send_signal(signal.SIGKILL)
    await until(lambda: house.state() == "failed", "the death is noticed")
    assert "SIGKILL" in house.host.residents()[0].warnings[0]
    await until(lambda: not house.processes(), "the child is reaped")
    (await house.lend()).release()


async def test_the_log_of_a_child_is_kept_and_names_how_it_was_started(house: House) -> None:
    house.model()
    (await house.lend()).release()
    await house.host.unload("tiny")
    log = house.layout.child_log("tiny").read_text()
    assert log.startswith("--- ")
    assert f"starting {house.root / 'engine' / 'llama-server'} --host 127.0.0.1" in log
    assert "listening on" in log


async def test_an_unloadable_idle_model_goes_when_its_time_is_up(house: House) -> None:
    house.configure(idle_timeout_secs=1)
    house.model()
    (await house.lend()).release()
    await until(lambda: house.host.residents() == (), "it is unloaded")
    (await house.lend()).release()
    house.host.keep("tiny", None)
    assert house.host.residents()[0].expires_in_s is None
    house.host.keep("tiny", 0)
    await until(lambda: house.host.residents() == (), "it is unloaded")

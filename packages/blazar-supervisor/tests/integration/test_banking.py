"""What an engine has read outlives it: on the stub, whose banks are the real engine's, down to what aborts it."""

import json
from pathlib import Path

import pytest

from blazar_supervisor.residency.banks import BankShelf
from blazar_supervisor.testing.house import House, ask, until

PROMPT = "a prompt that is long enough to be worth keeping " * 4


async def cached_tokens(house: House, prompt: str = PROMPT, name: str = "tiny") -> int:
    lease = await house.lend(name)
    status, text = await ask(lease, prompt, max_tokens=4)
    lease.release()
    assert status == 200
    return int(json.loads(text)["usage"]["prompt_tokens_details"]["cached_tokens"])


async def evicted(house: House, name: str = "tiny") -> None:
    house.configure(idle_timeout_secs=1)
    await until(lambda: house.state(name) is None, "the idle model is evicted")
    house.configure(idle_timeout_secs=1800)


def bank_files(house: House, key: str = "tiny") -> list[Path]:
    return sorted(BankShelf(house.layout.banks_dir, cap_bytes=lambda: 0).folder(key).glob("*"))


async def test_a_conversation_goes_on_after_an_eviction_where_it_was(house: House) -> None:
    model = house.model()
    house.configure(idle_timeout_secs=1)
    assert await cached_tokens(house) == 0
    await evicted(house)
    assert [path.name for path in bank_files(house)][-1] == "_auto-4096.json"
    assert await cached_tokens(house) >= 50
    assert model.spawns == 2


async def test_another_context_reads_everything_anew(house: House) -> None:
    house.model()
    house.configure(idle_timeout_secs=1)
    await cached_tokens(house)
    await evicted(house)
    house.configure(defaults={"ctx": 2048})
    assert await cached_tokens(house) == 0


@pytest.mark.parametrize("left", [0.0, 0.5, 0.99])
async def test_a_bank_that_is_cut_short_costs_the_bank_and_not_the_load(house: House, left: float) -> None:
    model = house.model()
    house.configure(idle_timeout_secs=1)
    await cached_tokens(house)
    await evicted(house)
    for path in bank_files(house):
        if path.suffix == ".bin":
            path.write_bytes(path.read_bytes()[: int(path.stat().st_size * left)])
    assert await cached_tokens(house) == 0
    assert model.spawns == 2


async def test_nothing_is_saved_where_the_settings_say_so(house: House) -> None:
    house.model()
    house.configure(idle_timeout_secs=1, bank_cap_mb=0)
    await cached_tokens(house)
    await until(lambda: house.state() is None, "the idle model is evicted")
    assert bank_files(house) == []


async def test_a_model_that_makes_room_for_another_is_saved(house: House) -> None:
    house.model("first")
    house.model("second")
    house.configure(max_loaded_models=1)
    await cached_tokens(house, name="first")
    await cached_tokens(house, name="second")
    assert bank_files(house, "first")
    assert await cached_tokens(house, name="first") >= 50

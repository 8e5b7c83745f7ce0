"""Nothing the host does blocks the loop, and it works on uvloop, which the daemon uses where it exists."""

import asyncio
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from blazar_stubs import install_stub, write_stub_model
from blazar_supervisor.testing.house import House, ask, until


async def a_day_in_the_life(house: House) -> None:
    assert await house.host.start() == ()
    lease = await house.lend()
    assert (await ask(lease))[0] == 200
    assert await lease.moved() in {True, False}
    lease.release()
    await until(lambda: house.state() == "sleeping", "it sleeps")
    (await house.lend()).release()
    assert await house.host.unload("tiny")
    (await house.lend()).release()
    await house.host.explain("tiny")
    await house.host.close()


def new_house(root: Path) -> House:
    house = House(root, engine=install_stub(root / "engine"), write_model=write_stub_model)
    house.configure(idle_sleep_secs=1)
    house.model()
    return house


def test_nothing_blocks_the_loop(tmp_path: Path) -> None:
    house = new_house(tmp_path)
    with blockbuster_ctx() as blocking:
        # Popen reads from a pipe whether the program could be executed: microseconds, and asyncio's own doing.
        blocking.functions["os.read"].can_block_in("subprocess.py", "_execute_child")
        asyncio.run(a_day_in_the_life(house))
    assert house.processes() == []


def test_it_works_on_uvloop(tmp_path: Path) -> None:
    uvloop = pytest.importorskip("uvloop", reason="there is no uvloop for this platform")
    house = new_house(tmp_path)
    uvloop.run(a_day_in_the_life(house))
    assert house.processes() == []
    assert house.run_files() == set()

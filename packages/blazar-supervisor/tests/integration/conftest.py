"""A house with the stub engine; at its end nothing may be left."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from blazar_stubs import install_stub, write_stub_model
from blazar_supervisor.testing.house import DEADLINE_S, House


@pytest.fixture
async def house(tmp_path: Path) -> AsyncIterator[House]:
    house = House(tmp_path, engine=install_stub(tmp_path / "engine"), write_model=write_stub_model)
    yield house
    await asyncio.wait_for(house.host.close(hurry=True), DEADLINE_S)
    assert house.processes() == []
    assert house.run_files() == set()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in others if "fixture" not in repr(task)]

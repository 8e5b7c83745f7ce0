"""A model whose architecture an engine does not know is moved to one that advertises it, and stays there."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from blazar_routing.errors import EngineMissing, LoadFailed
from blazar_store.testing import make_engine
from blazar_store.types import EngineRow, LanePin
from blazar_stubs import install_stub, write_stub_model
from blazar_supervisor import EngineHost
from blazar_supervisor.testing.house import DEADLINE_S, House

ADVERTISED = {"fork": frozenset({"llama"})}


class Lanes:
    """A house with a mainstream engine that does not know the architecture, and a fork that says it does."""

    def __init__(self, root: Path, *, fork_knows: bool) -> None:
        text = "error loading model: unknown model architecture: 'llama'"
        crash = {"crash": {"text": text, "exit_code": 1}}
        main = install_stub(root / "main", knobs=crash)
        fork = install_stub(root / "fork", knobs=None if fork_knows else crash)
        self.house = House(root, engine=main, write_model=write_stub_model)
        self.house.engines.append(make_engine("fork", server_path=fork, active=False, local=True))
        self.pins: dict[str, LanePin] = {}
        self.house.host = self.open()

    def open(self) -> EngineHost:
        """Return a host that remembers what an earlier one did."""
        house = self.house
        return EngineHost(
            layout=house.layout,
            settings=lambda: house.settings,
            models=house.rows.get,
            engines=lambda: house.engines,
            machine=lambda: house.machine,
            pins=self.pins.get,
            rerouted=self._remember,
            advertised=_advertised,
        )

    def _remember(self, model: str, engine: str, refused_by: frozenset[str]) -> None:
        self.pins[model] = LanePin(model, self.house.rows[model].digest, engine, tuple(sorted(refused_by)), 1)

    def engine(self) -> str:
        """Return the build that serves the model."""
        (view,) = self.house.host.residents()
        return view.engine


def _advertised(row: EngineRow) -> frozenset[str]:
    return ADVERTISED.get(row.tag, frozenset())


@pytest.fixture
async def lanes(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Lanes]:
    lanes = Lanes(tmp_path, fork_knows=getattr(request, "param", True))
    yield lanes
    await asyncio.wait_for(lanes.house.host.close(hurry=True), DEADLINE_S)
    assert lanes.house.processes() == []


async def test_the_request_that_meets_the_death_is_served_by_the_other_lane(lanes: Lanes) -> None:
    model = lanes.house.model()
    (await lanes.house.lend()).release()
    assert lanes.engine() == "fork"
    assert model.spawns == 2
    assert lanes.pins == {"tiny": LanePin("tiny", lanes.house.rows["tiny"].digest, "fork", ("local",), 1)}


async def test_after_a_restart_it_is_not_tried_anew(lanes: Lanes) -> None:
    model = lanes.house.model()
    (await lanes.house.lend()).release()
    await lanes.house.host.close()
    lanes.house.host = lanes.open()
    (await lanes.house.lend()).release()
    assert lanes.engine() == "fork"
    assert model.spawns == 3, "two for the first load, one for the second"


@pytest.mark.parametrize("why", ["forgotten", "another file", "the build is gone"])
async def test_what_no_longer_holds_is_tried_from_the_first(lanes: Lanes, why: str) -> None:
    model = lanes.house.model()
    digest = "of another file" if why == "another file" else lanes.house.rows["tiny"].digest
    tag = "a build that was removed" if why == "the build is gone" else "fork"
    if why != "forgotten":
        lanes.pins["tiny"] = LanePin("tiny", digest, tag, ("local",), 1)
    (await lanes.house.lend()).release()
    assert lanes.engine() == "fork"
    assert model.spawns == 2


async def test_forgetting_holds_from_the_next_load_on(lanes: Lanes) -> None:
    model = lanes.house.model()
    (await lanes.house.lend()).release()
    lanes.pins.clear()
    lanes.house.host.forget_lane("tiny")
    await lanes.house.host.unload("tiny")
    (await lanes.house.lend()).release()
    assert model.spawns == 4


@pytest.mark.parametrize("lanes", [False], indirect=True)
async def test_where_the_other_does_not_know_it_either_it_teaches_and_is_not_pinned(lanes: Lanes) -> None:
    model = lanes.house.model()
    with pytest.raises(LoadFailed, match="does not know the architecture 'llama'"):
        await lanes.house.lend()
    with pytest.raises(EngineMissing, match="the architecture 'llama' is unknown to fork"):
        await lanes.house.lend()
    assert model.spawns == 2
    assert lanes.pins == {}

"""The fakes keep to what every host keeps to."""

import pytest

from blazar_gateway.ports import ModelHost, Watched
from blazar_gateway.testing import HangsThenRecovers, LoadingHost, ReadyHost, ScriptedEngine, contract
from blazar_routing.ticket import Ticket

CHECKS = [
    contract.check_lease_names_its_model,
    contract.check_release_twice_is_release_once,
    contract.check_cancelled_wait_leaves_nothing,
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", [ReadyHost, LoadingHost, HangsThenRecovers])
async def test_fake_keeps_the_contract(kind: type[ReadyHost], check: object, engine: ScriptedEngine) -> None:
    host = kind(engine)
    if isinstance(host, LoadingHost):
        host.loaded.set()
    await check(host, "m")  # type: ignore[operator]  # parametrised
    assert host.held == 0


async def test_fakes_fit_the_ports(engine: ScriptedEngine) -> None:
    host: ModelHost = ReadyHost(engine)
    lease = await host.lend("m", Ticket(model="m"))
    assert not isinstance(lease, Watched)
    lease.release()
    watched = await HangsThenRecovers(engine).lend("m", Ticket(model="m"))
    assert isinstance(watched, Watched)

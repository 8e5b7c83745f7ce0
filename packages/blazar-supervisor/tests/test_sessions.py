"""Conversations go back to where they were, and pauses are remembered when somebody has to go."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from blazar_routing.ticket import Ticket
from blazar_supervisor.residency.pools import Bytes, Pools
from blazar_supervisor.residency.sessions import MOST, Homes
from blazar_supervisor.testing import SteppedLoop, make_profile
from blazar_supervisor.testing.stage import GIB, Scene, Stage, play_on


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = SteppedLoop()
    yield play_on(loop)
    loop.close()


def ticket(session: str | None = "s", *, model: str = "m", key: str = "") -> Ticket:
    return Ticket(model=model, key=key, session=session)


@pytest.mark.parametrize(
    ("noted", "asked", "after_s", "home"),
    [
        pytest.param(ticket(), ticket(), 899.0, "m#2", id="the same conversation in time"),
        pytest.param(ticket(), ticket(), 900.0, None, id="after fifteen minutes"),
        pytest.param(ticket(), ticket("other"), 0.0, None, id="another conversation"),
        pytest.param(ticket(), ticket(key="somebody"), 0.0, None, id="another key's conversation of that name"),
        pytest.param(ticket(), ticket(model="n"), 0.0, None, id="with another model"),
        pytest.param(ticket(None), ticket(None), 0.0, None, id="no conversation"),
        pytest.param(ticket(""), ticket(""), 0.0, "m#2", id="an empty name is a name"),
    ],
)
def test_a_conversation_is_at_home_where_it_was_served_last(
    noted: Ticket, asked: Ticket, after_s: float, home: str | None
) -> None:
    homes = Homes()
    homes.note(noted, "m#2", now_s=100.0, keep_s=900.0)
    assert homes.find(asked, now_s=100.0 + after_s) == home


def test_nothing_is_kept_when_the_setting_is_nought() -> None:
    homes = Homes()
    homes.note(ticket(), "m", now_s=0.0, keep_s=900.0)
    assert homes.note(ticket(), "m", now_s=1.0, keep_s=0.0) is None
    assert homes.find(ticket(), now_s=1.0) is None
    assert len(homes) == 0


def test_each_request_begins_the_time_anew_and_the_longest_silent_goes_first() -> None:
    homes = Homes()
    for number in range(MOST):
        homes.note(ticket(str(number)), "m", now_s=0.0, keep_s=900.0)
    homes.note(ticket("0"), "m", now_s=800.0, keep_s=900.0)
    homes.note(ticket("one more"), "m", now_s=800.0, keep_s=900.0)
    assert len(homes) == MOST
    assert homes.find(ticket("0"), now_s=1600.0) == "m"
    assert homes.find(ticket("1"), now_s=0.0) is None


async def two_replicas(stage: Stage) -> None:
    stage.planner.profiles["m"] = make_profile("m", slots=2)
    stage.serve_with(replicas=2)
    leases = [await stage.lend(), await stage.lend()]
    third = stage.ask()
    await stage.loop.settle()
    leases.append(third.result())
    assert {lease.child for lease in leases} == {"m", "m#2"}
    for lease in leases:
        lease.release()


def test_the_next_request_of_a_conversation_goes_to_the_replica_that_knows_it(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        await two_replicas(stage)
        other = await stage.lend()
        assert other.child == "m"
        talk = await stage.lend(session="s")
        assert talk.child == "m#2", "the least loaded"
        talk.release()
        other.release()
        # Equal loads: the oldest would be taken, were it not for the conversation.
        assert (await stage.lend(session="s")).child == "m#2"
        assert (await stage.lend(session="t")).child == "m"

    scene(story)


def test_nobody_waits_for_a_busy_home_while_another_child_is_free(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        await two_replicas(stage)
        talk = await stage.lend(session="s")
        assert talk.child == "m"
        # It is its home still, and full.
        await stage.lend(session="s")
        assert (await stage.lend(session="s")).child == "m#2"

    scene(story)


def test_a_pause_of_a_conversation_is_respected_when_somebody_has_to_go(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        for name in ("a", "b", "c"):
            stage.planner.profiles[name] = make_profile(name, need=Bytes(host=10 * GIB))
        stage.planner.memory = Pools(Bytes(host=25 * GIB), Bytes(host=25 * GIB))
        (await stage.lend("a", session="s")).release()
        await stage.pass_time(60.0)
        (await stage.lend("b")).release()
        await stage.pass_time(60.0)
        (await stage.lend("c")).release()
        assert (stage.state("a"), stage.state("b")) == ("ready", None), "b was used later, but nobody talks to it"
        await stage.pass_time(900.0)
        (await stage.lend("b")).release()
        assert (stage.state("a"), stage.state("c")) == (None, "ready"), "the pause was too long"

    scene(story)


def test_a_pause_refuses_nobody(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=15)
        (await stage.lend("a", session="s")).release()
        (await stage.lend("b")).release()
        assert stage.state("a") is None

    scene(story)


def test_a_stop_of_a_model_lets_its_conversations_go(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.limits = replace(stage.limits, session_keep_s=900.0)
        (await stage.lend(session="s")).release()
        assert stage.dispatcher.conversations() == 1
        await stage.dispatcher.unload("m")
        assert stage.dispatcher.conversations() == 0

    scene(story)

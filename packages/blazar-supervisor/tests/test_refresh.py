"""Edits of the settings while children run: what reaches them, and when they are replaced."""

from collections.abc import Iterator

import pytest

from blazar_supervisor.residency.residence import Residence
from blazar_supervisor.testing import SteppedLoop, make_profile
from blazar_supervisor.testing.stage import Scene, Stage, play_on


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = SteppedLoop()
    yield play_on(loop)
    loop.close()


def residence(stage: Stage, key: str = "m") -> Residence:
    found = stage.dispatcher.census.find(key)
    assert found is not None
    return found


def test_an_idle_child_goes_at_once_and_the_next_request_gets_the_new_settings(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        (await stage.lend()).release()
        stage.planner.stamp = "edited"
        stage.dispatcher.refresh()
        await stage.loop.settle()
        assert stage.state() is None
        (await stage.lend()).release()
        assert len(stage.launcher.children) == 2
        stage.dispatcher.refresh()
        await stage.loop.settle()
        assert stage.state() == "ready"

    scene(story)


def test_a_child_is_never_replaced_under_a_lease(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        first, second = await stage.lend(), await stage.lend()
        stage.planner.stamp = "edited"
        stage.dispatcher.refresh()
        await stage.pass_time(60.0)
        assert stage.state() == "ready"
        first.release()
        await stage.loop.settle()
        assert stage.state() == "ready"
        second.release()
        await stage.loop.settle()
        assert stage.state() is None

    scene(story)


def test_who_waits_gets_the_child_with_the_new_settings(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.profiles["m"] = make_profile("m", slots=1)
        lease = await stage.lend()
        waiting = stage.ask()
        await stage.loop.settle()
        stage.planner.stamp = "edited"
        stage.dispatcher.refresh()
        lease.release()
        await stage.loop.settle()
        assert waiting.done()
        assert len(stage.launcher.children) == 2
        waiting.result().release()
        await stage.loop.settle()
        assert stage.state() == "ready"

    scene(story)


def test_an_edit_that_shapes_nothing_replaces_nothing_and_reaches_the_child(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        (await stage.lend()).release()
        stage.planner.idle_s = 30.0
        stage.dispatcher.refresh()
        await stage.pass_time(29.0)
        assert stage.state() == "ready"
        await stage.pass_time(2.0)
        assert stage.state() is None

    scene(story)


def test_a_longer_stay_reaches_the_child_too_and_a_request_goes_before_the_settings(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        (await stage.lend("a")).release()
        (await stage.lend("b")).release()
        stage.dispatcher.keep("b", 5.0)
        stage.planner.idle_s = None
        stage.dispatcher.refresh()
        await stage.pass_time(10_000.0)
        assert (stage.state("a"), stage.state("b")) == ("ready", None)

    scene(story)


def test_an_edit_while_the_plan_is_made_is_noticed_when_the_child_is_up(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.launcher.instant = False
        asked = stage.ask()
        await stage.loop.settle()
        [child] = stage.launcher.children
        stage.planner.stamp = "edited"
        child.become_ready()
        await stage.loop.settle()
        again = stage.launcher.children[-1]
        assert again is not child
        again.become_ready()
        await stage.loop.settle()
        assert asked.done()
        asked.result().release()

    scene(story)


def test_a_model_that_is_to_stay_comes_up_again_and_stays(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        (await stage.lend()).release()
        stage.dispatcher.keep("m", None)
        stage.planner.stamp = "edited"
        stage.dispatcher.refresh()
        await stage.loop.settle()
        assert len(stage.launcher.children) == 2
        assert stage.state() == "ready"
        assert residence(stage).stay_s is None
        await stage.pass_time(100_000.0)
        assert stage.state() == "ready"

    scene(story)


def test_a_model_whose_row_has_gone_is_left_to_whoever_removes_it(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        (await stage.lend()).release()
        stage.planner.gone = {"m"}
        stage.dispatcher.refresh()
        await stage.loop.settle()
        assert stage.state() == "ready"

    scene(story)

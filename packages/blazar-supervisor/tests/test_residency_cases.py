"""What users of such servers reported about models that share a machine, on fakes and a clock that stands still."""

import asyncio
import random
from collections.abc import Iterator

import pytest

from blazar_routing.errors import DeadlineMissed, ModelDoesNotFit
from blazar_supervisor.residency.lease import SlotLease
from blazar_supervisor.residency.pools import Bytes, Pools
from blazar_supervisor.testing import SteppedLoop, make_profile
from blazar_supervisor.testing.stage import GIB, Scene, Stage, play_on


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = SteppedLoop()
    yield play_on(loop)
    loop.close()


def needs(stage: Stage, *, room_gib: int, **models_gib: int) -> None:
    """Give the machine so much memory, and models what they need."""
    for name, gib in models_gib.items():
        stage.planner.profiles[name] = make_profile(name, slots=1, need=Bytes(host=gib * GIB))
    stage.planner.memory = Pools(Bytes(host=room_gib * GIB), Bytes(host=room_gib * GIB))


async def served(stage: Stage, task: "asyncio.Task[SlotLease]", *, within_s: float) -> SlotLease:
    """Let time pass until a request has its lease."""
    for _ in range(round(within_s)):
        await stage.loop.settle()
        if task.done():
            break
        stage.loop.advance(1.0)
    assert task.done(), f"it waits for more than {within_s} s"
    return task.result()


# --- BC-28: many first requests, one spawn ---------------------------------------------------------------------------


def test_round_after_round_with_clients_that_leave_during_the_load_it_is_one_child_a_round(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.launcher.instant = False
        order = random.Random(28)
        for number in range(1, 101):
            asked = [stage.ask() for _ in range(20)]
            await stage.loop.settle()
            for leaver in order.sample(asked, order.randrange(19)):
                leaver.cancel()
                await stage.pass_time(order.random())
            stage.launcher.children[-1].become_ready()
            await stage.loop.settle()
            stayers = [task for task in asked if not task.cancelled()]
            while waiting := [task for task in stayers if not task.done()]:
                done = [task for task in stayers if task.done()]
                assert done, "nobody is served"
                for task in done:
                    task.result().release()
                stayers = waiting
                await stage.loop.settle()
            for task in stayers:
                task.result().release()
            assert len(stage.launcher.children) == number
            await stage.pass_time(1801.0)
            assert not stage.launcher.alive()

    scene(story)


# --- BC-29: two models, room for one ---------------------------------------------------------------------------------


def test_three_models_at_once_with_room_for_one_are_all_served_in_turn(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        needs(stage, room_gib=12, a=10, b=10, c=10)
        (await stage.lend("a")).release()
        asked = [stage.ask(name) for name in ("b", "c", "a")]
        for task in asked:
            task.add_done_callback(lambda done: done.result().release())
        for task in asked:
            await served(stage, task, within_s=130)
        # Nothing went back and forth: each was loaded at most once for it.
        loaded = [child.model for child in stage.launcher.children]
        assert sorted(loaded[1:]) in (["b", "c"], ["a", "b", "c"])

    scene(story)


def test_a_stream_ends_before_its_model_gives_way_and_a_deadline_is_kept(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        needs(stage, room_gib=12, a=10, b=10)
        stream = await stage.lend("a")
        revoked: list[object] = []
        stream.on_revoke(revoked.append)
        patient, hasty = stage.ask("b"), stage.ask("b", deadline_s=5.0)
        await stage.loop.settle()
        await stage.pass_time(60.0)
        with pytest.raises(DeadlineMissed) as missed:
            hasty.result()
        assert missed.value.retry_after_s
        assert not patient.done()
        assert not revoked
        stream.release()
        (await served(stage, patient, within_s=60)).release()

    scene(story)


def test_an_agent_that_alternates_between_two_models_is_served_a_hundred_times(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        needs(stage, room_gib=12, a=10, b=10)
        for turn in range(100):
            lease = await served(stage, stage.ask("ab"[turn % 2]), within_s=61)
            lease.release()
        assert len(stage.launcher.children) == 100

    scene(story)


# --- BC-35: not enough memory with something idle to evict -----------------------------------------------------------


def test_the_least_recently_used_goes_a_pin_is_named_and_the_hopeless_disturbs_nobody(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        needs(stage, room_gib=24, idle=14, coming=12, hopeless=30)
        (await stage.lend("idle")).release()
        hopeless = stage.ask("hopeless")
        await stage.loop.settle()
        with pytest.raises(ModelDoesNotFit, match=r"30\.0 GiB"):
            hopeless.result()
        stage.dispatcher.keep("idle", None)
        pinned = stage.ask("coming")
        await stage.loop.settle()
        with pytest.raises(ModelDoesNotFit, match="'idle' is kept loaded for ever"):
            pinned.result()
        assert [child.model for child in stage.launcher.children] == ["idle"]
        assert stage.launcher.children[0].stops == 0
        stage.dispatcher.keep("idle", 1800.0)
        (await stage.lend("coming")).release()
        assert [child.model for child in stage.launcher.alive()] == ["coming"]

    scene(story)

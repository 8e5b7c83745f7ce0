"""Room for one: nobody fails, nobody waits for ever, nothing that runs is touched (field case BC-29)."""

from collections.abc import Iterator

import pytest

from blazar_routing.errors import DeadlineMissed
from blazar_routing.turns import TurnRule
from blazar_supervisor.residency.pools import Bytes, Pools
from blazar_supervisor.testing import SteppedLoop, make_profile
from blazar_supervisor.testing.stage import GIB, Scene, Stage, play_on

RULE = TurnRule()


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = SteppedLoop()
    yield play_on(loop)
    loop.close()


def room_for_one_of(stage: Stage, *names: str) -> None:
    for name in names:
        stage.planner.profiles[name] = make_profile(name, slots=4, need=Bytes(host=10 * GIB))
    stage.planner.memory = Pools(Bytes(host=15 * GIB), Bytes(host=15 * GIB))


def test_bc_29_three_models_in_the_same_millisecond_are_served_one_after_the_other(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        room_for_one_of(stage, "a", "b", "c")
        (await stage.lend("a")).release()
        asked = [stage.ask(name) for name in ("b", "c", "a")]
        served: list[str] = []
        for _ in range(60):
            await stage.loop.settle()
            for task in asked:
                if task.done() and task.result().model not in served:
                    served.append(task.result().model)
                    task.result().release()
            await stage.pass_time(1.0)
        assert sorted(served) == ["a", "b", "c"]
        assert len(stage.launcher.alive()) == 1

    scene(story)


def test_bc_29_a_stream_ends_before_its_model_goes_however_long_it_takes(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        room_for_one_of(stage, "a", "b")
        stream = await stage.lend("a")
        asked = stage.ask("b")
        await stage.loop.settle()
        await stage.pass_time(3600.0)
        assert not asked.done()
        assert not stage.launcher.children[0].exited.is_set()
        stream.release()
        await stage.loop.settle()
        asked.result().release()

    scene(story)


def test_bc_29_an_agent_that_alternates_between_two_models_for_a_hundred_turns_gets_every_answer(
    scene: Scene,
) -> None:
    async def story(stage: Stage) -> None:
        room_for_one_of(stage, "a", "b")
        began_s = stage.loop.time()
        for turn in range(100):
            asked = stage.ask("ab"[turn % 2])
            await stage.loop.settle()
            while not asked.done():
                await stage.pass_time(1.0)
                assert stage.loop.time() - began_s < 3600.0, f"turn {turn} never comes"
            asked.result().release()
        swaps = len(stage.launcher.children) - 1
        assert swaps == 99
        minutes = (stage.loop.time() - began_s) / 60
        assert swaps <= RULE.max_swaps_per_minute * (minutes + 1)

    scene(story)


def test_bc_29_neither_of_two_busy_models_waits_beyond_a_turn_a_load_and_an_answer(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        room_for_one_of(stage, "a", "b")
        running = {"a": await stage.lend("a")}
        waiting = {"b": stage.ask("b")}
        since_s = {"b": stage.loop.time()}
        longest_s = 0.0
        for _ in range(600):
            await stage.pass_time(1.0)
            for name, task in tuple(waiting.items()):
                if task.done():
                    longest_s = max(longest_s, stage.loop.time() - since_s.pop(name))
                    running[name] = waiting.pop(name).result()
            for name, lease in tuple(running.items()):
                # An answer takes a second; its client has the next question at once.
                del running[name]
                lease.release()
                waiting[name] = stage.ask(name)
                since_s[name] = stage.loop.time()
            for name in ("a", "b"):
                if name not in waiting and name not in running:
                    waiting[name], since_s[name] = stage.ask(name), stage.loop.time()
        assert longest_s <= RULE.max_turn_s + 5.0
        assert len(stage.launcher.children) > 5, "both had their turns"
        for task in waiting.values():
            task.cancel()
        for lease in running.values():
            lease.release()
        await stage.loop.settle()

    scene(story)


def test_bc_29_past_its_deadline_a_request_is_told_to_come_again(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        room_for_one_of(stage, "a", "b")
        stream = await stage.lend("a")
        asked = stage.ask("b", deadline_s=2.0)
        await stage.loop.settle()
        await stage.pass_time(2.1)
        with pytest.raises(DeadlineMissed) as missed:
            asked.result()
        assert missed.value.retry_after_s
        stream.release()

    scene(story)

"""Lines with several children, companions, and contexts that clients ask for: the dispatcher on fakes."""

from collections.abc import Iterator

import pytest

from blazar_routing.errors import BreakerOpen, ContextDoesNotFit, EngineCrashed, LaneError, ModelStopped
from blazar_supervisor.residency.pools import Bytes, Pools
from blazar_supervisor.testing import SteppedLoop, make_profile
from blazar_supervisor.testing.stage import GIB, Scene, Stage, play_on


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = SteppedLoop()
    yield play_on(loop)
    loop.close()


def states(stage: Stage) -> dict[str, str]:
    return {view.child: view.state for view in stage.dispatcher.residents()}


# Companions


def test_a_companion_is_a_child_of_its_own_and_goes_with_the_model(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        plain, companion = await stage.lend("m"), await stage.lend("m@embed")
        assert (companion.model, companion.child) == ("m", "m@embed")
        assert plain.endpoint != companion.endpoint
        plain.release()
        companion.release()
        stage.dispatcher.keep("m@embed", 5.0)
        await stage.pass_time(6.0)
        assert states(stage) == {"m": "ready"}
        (await stage.lend("m@embed")).release()
        unloading = stage.loop.create_task(stage.dispatcher.unload("m"))
        await stage.loop.settle()
        assert unloading.result()
        assert states(stage) == {}

    scene(story)


def test_who_waits_for_a_companion_is_told_when_its_model_is_stopped(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.launcher.instant = False
        waiting = stage.ask("m@vision")
        await stage.loop.settle()
        unloading = stage.loop.create_task(stage.dispatcher.unload("m"))
        await stage.loop.settle()
        assert unloading.done()
        with pytest.raises(ModelStopped):
            waiting.result()

    scene(story)


def test_a_companion_makes_its_idle_model_go_where_there_is_room_for_one(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        for name in ("m", "m@embed"):
            stage.planner.profiles[name] = make_profile("m", need=Bytes(host=10 * GIB))
        stage.planner.memory = Pools(Bytes(host=12 * GIB), Bytes(host=12 * GIB))
        plain = await stage.lend("m")
        waiting = stage.ask("m@embed")
        await stage.loop.settle()
        assert not waiting.done()
        plain.release()
        await stage.loop.settle()
        waiting.result().release()
        assert states(stage) == {"m@embed": "ready"}

    scene(story)


# Replicas


def test_a_replica_comes_when_all_are_busy_and_the_least_loaded_serves(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.serve_with(replicas=2)
        first = [await stage.lend() for _ in range(4)]
        assert {lease.child for lease in first} == {"m"}
        second = [await stage.lend() for _ in range(2)]
        assert {lease.child for lease in second} == {"m#2"}
        for lease in first[:3]:
            lease.release()
        # Two of four slots are taken on each then: of equals it is the oldest.
        assert [(await stage.lend()).child for _ in range(2)] == ["m", "m"]
        assert (await stage.lend()).child == "m#2"
        views = stage.dispatcher.residents()
        assert [view.model for view in views] == ["m", "m"]

    scene(story)


def test_there_are_no_more_replicas_than_the_settings_say(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.serve_with(replicas=3)
        for _ in range(12):
            await stage.lend()
        waiting = [stage.ask() for _ in range(3)]
        await stage.loop.settle()
        assert len(stage.launcher.alive()) == 3
        assert not any(task.done() for task in waiting)
        # One line, whose waiters are shown once.
        assert sum(view.waiting for view in stage.dispatcher.residents()) == 3

    scene(story)


def test_a_replica_makes_nobody_go(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.serve_with(replicas=2)
        stage.two_models_of_ten_gib(room_gib=25)
        (await stage.lend("b")).release()
        lease = await stage.lend("a")
        waiting = stage.ask("a")
        await stage.loop.settle()
        assert not waiting.done()
        assert states(stage) == {"b": "ready", "a": "ready"}
        lease.release()
        await stage.loop.settle()
        assert waiting.result().child == "a"

    scene(story)


def test_an_idle_replica_goes_for_another_model_while_its_line_works_on(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.serve_with(replicas=2)
        stage.two_models_of_ten_gib(room_gib=25)
        busy = await stage.lend("a")
        (await stage.lend("a")).release()
        assert states(stage) == {"a": "ready", "a#2": "ready"}
        other = stage.ask("b")
        await stage.loop.settle()
        other.result().release()
        assert states(stage) == {"a": "ready", "b": "ready"}
        assert stage.launcher.children[0].stops == 0
        busy.release()

    scene(story)


def test_a_replica_that_does_not_come_up_costs_nobody_the_others(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.serve_with(replicas=2)
        leases = [await stage.lend() for _ in range(4)]
        stage.launcher.instant = False
        waiting = stage.ask()
        await stage.loop.settle()
        stage.launcher.children[-1].die()
        await stage.loop.settle()
        assert not waiting.done()
        assert states(stage) == {"m": "ready", "m#2": "failed"}
        # It is not tried again and again, ...
        assert len(stage.launcher.children) == 2
        leases[0].release()
        await stage.loop.settle()
        assert waiting.result().child == "m"
        # ... but after a while it is.
        stage.launcher.instant = True
        await stage.pass_time(31.0)
        assert (await stage.lend()).child == "m#2"

    scene(story)


def test_an_idle_replica_goes_when_its_time_is_up_and_the_first_stays(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.serve_with(replicas=2)
        leases = [await stage.lend() for _ in range(5)]
        leases.pop().release()
        await stage.pass_time(1801.0)
        assert states(stage) == {"m": "ready"}

    scene(story)


def test_a_sleeping_replica_is_woken_before_another_is_made(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.serve_with(replicas=3)
        stage.planner.profiles["m"] = make_profile("m", slots=1, sleep_s=300)
        busy = await stage.lend()
        (await stage.lend()).release()
        stage.launcher.children[1].fall_asleep()
        await stage.pass_time(310.0)
        assert states(stage) == {"m": "ready", "m#2": "sleeping"}
        waiting = stage.ask()
        await stage.loop.settle()
        assert stage.launcher.children[1].waking
        stage.launcher.children[1].finish_waking()
        await stage.loop.settle()
        assert waiting.result().child == "m#2"
        busy.release()

    scene(story)


# Contexts


def test_a_larger_context_waits_for_the_running_answers_and_then_takes_their_place(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        running = await stage.lend()
        assert running.ctx_tokens == 4096
        large = stage.ask(ctx_tokens=9000)
        await stage.loop.settle()
        late = stage.ask()
        await stage.loop.settle()
        assert not large.done()
        assert not late.done()
        assert stage.launcher.children[0].stops == 0
        running.release()
        await stage.loop.settle()
        assert large.result().ctx_tokens == late.result().ctx_tokens == 9000
        assert len(stage.launcher.children) == 2

    scene(story)


@pytest.mark.parametrize("wish", [0, 1, 4096])
def test_a_smaller_wish_or_none_keeps_the_child(scene: Scene, wish: int) -> None:
    async def story(stage: Stage) -> None:
        (await stage.lend(ctx_tokens=8192)).release()
        assert (await stage.lend(ctx_tokens=wish)).ctx_tokens == 8192
        assert len(stage.launcher.children) == 1

    scene(story)


def test_a_wish_that_does_not_fit_is_refused_alone(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.most_ctx = 10_000
        # Nothing is loaded: those who ask for no context are served all the same.
        large, plain = stage.ask(ctx_tokens=20_000), stage.ask()
        await stage.loop.settle()
        with pytest.raises(ContextDoesNotFit, match="20000"):
            large.result()
        plain.result().release()
        # Something is: it is not touched.
        again = stage.ask(ctx_tokens=20_000)
        await stage.loop.settle()
        with pytest.raises(ContextDoesNotFit):
            again.result()
        assert len(stage.launcher.children) == 1
        assert stage.launcher.children[0].stops == 0

    scene(story)


def test_a_wish_beyond_training_is_served_with_what_there_can_be_and_asked_about_once(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.trained = 4096
        (await stage.lend()).release()
        plans = stage.planner.plans
        for _ in range(3):
            (await stage.lend(ctx_tokens=32_768)).release()
        assert len(stage.launcher.children) == 1
        assert stage.planner.plans == plans + 1

    scene(story)


def test_a_larger_context_that_pinned_models_keep_from_fitting_is_refused_and_names_them(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=25)
        (await stage.lend("a")).release()
        (await stage.lend("b")).release()
        stage.dispatcher.keep("b", None)
        stage.planner.profiles["a"] = make_profile("a", need=Bytes(host=20 * GIB))
        large = stage.ask("a", ctx_tokens=9000)
        await stage.loop.settle()
        with pytest.raises(ContextDoesNotFit, match="'b' is kept loaded for ever"):
            large.result()
        assert states(stage) == {"a": "ready", "b": "ready"}

    scene(story)


def test_whoever_asked_for_more_may_leave_and_the_small_child_serves_on(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        running = await stage.lend()
        large = stage.ask(ctx_tokens=9000)
        await stage.loop.settle()
        plain = stage.ask()
        await stage.loop.settle()
        assert not plain.done()
        large.cancel()
        await stage.loop.settle()
        assert plain.result().child == running.child
        assert len(stage.launcher.children) == 1

    scene(story)


# Deaths in a row


@pytest.mark.parametrize("answers", [True, False], ids=["answers-between", "none-between"])
def test_only_deaths_without_a_good_answer_between_are_in_a_row(scene: Scene, *, answers: bool) -> None:
    async def story(stage: Stage) -> None:
        for _ in range(3):
            lease = await stage.lend()
            if answers:
                lease.answered()
                lease.release()
                lease = await stage.lend()
            stage.launcher.children[-1].die()
            await stage.loop.settle()
            lease.release()
        refused = stage.ask()
        await stage.loop.settle()
        if answers:
            refused.result().release()
        else:
            with pytest.raises(BreakerOpen, match="died 3 times in a row"):
                refused.result()

    scene(story)


def test_a_call_that_took_no_slot_is_no_good_answer(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        errors: list[LaneError] = []
        for _ in range(3):
            lease = await stage.lend(slots=0)
            lease.answered()
            stage.launcher.children[-1].die()
            await stage.loop.settle()
            errors.append(await lease.explain_failure(None))
            lease.release()
        assert all(isinstance(error, EngineCrashed) for error in errors)
        refused = stage.ask()
        await stage.loop.settle()
        with pytest.raises(BreakerOpen):
            refused.result()

    scene(story)

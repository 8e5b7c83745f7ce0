"""The dispatcher on fakes: who gets a slot when, and what it does to children."""

import asyncio
from collections.abc import Iterator

import pytest

from blazar_routing.errors import (
    DeadlineMissed,
    EngineCrashed,
    InternalError,
    LaneError,
    LoadFailed,
    ModelDoesNotFit,
    ModelNotFound,
    QueueFull,
)
from blazar_routing.ticket import Ticket
from blazar_supervisor.engines.failure import Cause
from blazar_supervisor.engines.figures import MemoryFigures
from blazar_supervisor.residency.lifecycle import Limits
from blazar_supervisor.residency.pools import Bytes, Pools
from blazar_supervisor.residency.ports import StartFailed
from blazar_supervisor.testing import IgnoresSigtermChild, SteppedLoop, make_profile
from blazar_supervisor.testing.stage import Scene, Stage, play_on

GIB = 1 << 30


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = SteppedLoop()
    yield play_on(loop)
    loop.close()


def test_a_free_slot_is_lent_without_suspending(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        (await stage.lend()).release()
        tasks = len(asyncio.all_tasks())
        work = stage.dispatcher.lend("m", Ticket(model="m"))
        with pytest.raises(StopIteration) as stopped:
            work.send(None)
        lease = stopped.value.value
        assert (lease.queue_s, lease.load_s) == (0.0, 0.0)
        assert len(asyncio.all_tasks()) == tasks
        lease.release()

    scene(story)


def test_no_more_generations_than_slots_and_the_next_goes_when_one_ends(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        leases = [await stage.lend() for _ in range(4)]
        fifth, sixth = stage.ask(), stage.ask()
        await stage.loop.settle()
        assert not fifth.done()
        view = stage.dispatcher.waiting("m")
        assert view is not None
        assert (view.state, view.ahead) == ("queued", 1)
        leases[0].release()
        leases[0].release()
        await stage.loop.settle()
        assert fifth.done()
        assert not sixth.done()
        leases[1].release()
        await stage.loop.settle()
        assert sixth.done()
        assert stage.dispatcher.waiting("m") is None

    scene(story)


def test_a_call_without_a_slot_passes_a_full_child(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        for _ in range(4):
            await stage.lend()
        lease = await stage.lend(slots=0)
        assert stage.dispatcher.residents()[0].in_flight == 5
        lease.release()

    scene(story)


def test_cells_are_accounted_so_that_streams_do_not_starve_each_other(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        first = await stage.lend(cells=3000)
        second = stage.ask(cells=2000)
        await stage.loop.settle()
        assert not second.done()
        first.release()
        await stage.loop.settle()
        assert second.done()

    scene(story)


def test_a_request_that_waits_too_long_is_refused(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.launcher.instant = False
        late = stage.ask(deadline_s=2.0)
        patient = stage.ask()
        await stage.loop.settle()
        await stage.pass_time(2.5)
        with pytest.raises(DeadlineMissed):
            await late
        stage.launcher.children[0].become_ready()
        await stage.loop.settle()
        assert patient.result().load_s == pytest.approx(2.5)

    scene(story)


def test_a_full_queue_refuses(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.limits = Limits(queue_limit=2)
        stage.launcher.instant = False
        waiting = [stage.ask(), stage.ask()]
        await stage.loop.settle()
        with pytest.raises(QueueFull):
            await stage.lend()
        for task in waiting:
            task.cancel()
        await stage.loop.settle()

    scene(story)


def test_a_slot_given_in_the_moment_its_client_leaves_is_not_lost(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        leases = [await stage.lend() for _ in range(4)]
        gone, next_one = stage.ask(), stage.ask()
        await stage.loop.settle()
        leases[0].release()
        gone.cancel()
        await stage.loop.settle()
        assert gone.cancelled()
        assert next_one.done()

    scene(story)


@pytest.mark.parametrize(
    ("seconds", "goes_at_s"),
    [
        pytest.param("default", 1800.0, id="default"),
        pytest.param(30.0, 30.0, id="shorter"),
        pytest.param(7200.0, 7200.0, id="longer"),
        pytest.param(None, None, id="for-ever"),
    ],
)
def test_a_model_goes_when_it_has_been_idle_for_long_enough(
    scene: Scene, seconds: float | str | None, goes_at_s: float | None
) -> None:
    async def story(stage: Stage) -> None:
        lease = await stage.lend()
        if not isinstance(seconds, str):
            stage.dispatcher.keep("m", seconds)
        await stage.pass_time(100_000.0)
        assert stage.state() == "ready"
        lease.release()
        assert stage.dispatcher.residents()[0].expires_in_s == goes_at_s
        if goes_at_s is None:
            await stage.pass_time(10_000_000.0)
            assert stage.state() == "ready"
            return
        await stage.pass_time(goes_at_s - 1)
        assert stage.state() == "ready"
        await stage.pass_time(1.5)
        assert stage.state() is None

    scene(story)


def test_keep_nothing_unloads_when_the_last_lease_ends(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        first, second = await stage.lend(), await stage.lend()
        stage.dispatcher.keep("m", 0)
        first.release()
        await stage.loop.settle()
        assert stage.state() == "ready"
        second.release()
        await stage.loop.settle()
        assert stage.state() is None

    scene(story)


def test_keep_of_an_absent_model_does_nothing(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.dispatcher.keep("m", 0)
        (await stage.lend()).release()
        await stage.loop.settle()
        assert stage.state() == "ready"

    scene(story)


def test_a_request_during_an_idle_stop_gets_a_new_child_once_the_old_is_gone(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.launcher.make = IgnoresSigtermChild
        (await stage.lend()).release()
        stage.dispatcher.keep("m", 0)
        await stage.loop.settle()
        assert stage.state() == "stopping"
        late = stage.ask()
        await stage.loop.settle()
        assert len(stage.launcher.children) == 1
        await stage.pass_time(10.0)
        assert late.done()
        assert len(stage.launcher.children) == 2

    scene(story)


def test_a_second_model_waits_until_the_first_ones_stream_has_ended(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=12)
        lease = await stage.lend("a")
        other = stage.ask("b")
        await stage.pass_time(100.0)
        assert not other.done()
        assert not lease._revoked
        lease.release()
        await stage.loop.settle()
        assert other.done()
        assert [child.key for child in stage.launcher.alive()] == ["b"]

    scene(story)


def test_two_models_stay_where_there_is_room_for_both(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=21)
        (await stage.lend("a")).release()
        (await stage.lend("b")).release()
        assert len(stage.launcher.alive()) == 2

    scene(story)


def test_what_the_engine_says_it_holds_counts_more_than_the_budget(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=12)
        (await stage.lend("a")).release()
        stage.launcher.children[0].held = MemoryFigures(host_bytes=GIB)
        (await stage.lend("b")).release()
        assert len(stage.launcher.alive()) == 2

    scene(story)


def test_a_pinned_model_is_not_evicted_and_is_named(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=12)
        (await stage.lend("a")).release()
        stage.dispatcher.keep("a", None)
        with pytest.raises(ModelDoesNotFit, match="'a' is kept loaded for ever"):
            await stage.lend("b")
        assert stage.state("a") == "ready"
        assert stage.state("b") is None

    scene(story)


def test_a_hopeless_model_is_refused_and_nobody_is_evicted(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=12)
        stage.planner.profiles["b"] = make_profile("b", need=Bytes(host=99 * GIB))
        (await stage.lend("a")).release()
        with pytest.raises(ModelDoesNotFit, match=r"it needs 99\.0 GiB"):
            await stage.lend("b")
        assert stage.state("a") == "ready"

    scene(story)


def test_memory_that_a_model_gives_back_late_is_looked_for_again_before_refusing(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=12)
        (await stage.lend("a")).release()
        await stage.dispatcher.unload("a")
        everything = stage.planner.memory
        stage.planner.memory = Pools(everything.total, Bytes(host=3 * GIB))
        waiting = stage.ask("b")
        await stage.loop.settle()
        assert not waiting.done()
        stage.planner.memory = everything
        await stage.pass_time(0.6)
        assert waiting.done()
        waiting.result().release()

    scene(story)


def test_a_refusal_of_the_planner_reaches_everybody_and_leaves_nothing(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.errors["m"] = ModelNotFound(model="m")
        waiting = [stage.ask() for _ in range(3)]
        await stage.loop.settle()
        for task in waiting:
            with pytest.raises(ModelNotFound):
                await task
        assert stage.dispatcher.residents() == ()
        assert stage.planner.plans == 1

    scene(story)


def test_a_fault_of_our_own_leaves_nobody_waiting(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        async def broken(*_: object, **__: object) -> None:
            raise ZeroDivisionError

        stage.planner.plan = broken  # type: ignore[method-assign,assignment]  # the fault
        with pytest.raises(InternalError):
            await stage.lend()
        assert stage.dispatcher.residents() == ()

    scene(story)
    assert "a fault of Blazar's own" in caplog.text


def test_a_death_while_loading_is_told_to_all_who_wait_and_the_next_request_tries_again(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.launcher.instant = False
        waiting = [stage.ask() for _ in range(3)]
        await stage.loop.settle()
        stage.launcher.children[0].die()
        await stage.loop.settle()
        for task in waiting:
            with pytest.raises(LoadFailed):
                await task
        assert stage.state() == "failed"
        stage.launcher.instant = True
        (await stage.lend()).release()

    scene(story)


def test_a_death_while_serving_does_not_cost_those_who_wait(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        leases = [await stage.lend() for _ in range(4)]
        waiting = stage.ask()
        await stage.loop.settle()
        stage.launcher.children[0].die()
        await stage.loop.settle()
        assert waiting.done()
        assert waiting.result().endpoint != leases[0].endpoint
        assert isinstance(await leases[0].explain_failure(None), EngineCrashed)
        for lease in leases:
            lease.release()
        assert stage.dispatcher.residents()[0].in_flight == 1

    scene(story)


def test_a_long_healthy_life_forgets_earlier_deaths(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        for _ in range(5):
            (await stage.lend()).release()
            stage.dispatcher.keep("m", None)
            await stage.pass_time(700.0)
            stage.launcher.children[-1].die()
            await stage.loop.settle()
        (await stage.lend()).release()

    scene(story)


def test_a_start_that_fails_is_told_and_forgotten(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        error = LoadFailed(model="m", reason="its address was taken", advice="Again.")
        stage.launcher.failures = [StartFailed(error, cause=Cause.OTHER, died=False)]
        with pytest.raises(LoadFailed):
            await stage.lend()
        assert stage.launcher.children == []
        (await stage.lend()).release()

    scene(story)


def test_an_idle_child_that_fell_asleep_is_woken_before_it_is_lent(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.profiles["m"] = make_profile("m", sleep_s=300)
        (await stage.lend()).release()
        child = stage.launcher.children[0]
        child.fall_asleep()
        await stage.pass_time(302.0)
        assert stage.state() == "sleeping"
        waiting = stage.ask()
        await stage.loop.settle()
        assert (child.wakes, waiting.done()) == (1, False)
        await stage.pass_time(3.0)
        child.finish_waking()
        await stage.loop.settle()
        assert waiting.result().load_s == pytest.approx(3.0)

    scene(story)


def test_a_child_that_might_sleep_but_does_not_is_lent_after_a_question(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.profiles["m"] = make_profile("m", sleep_s=300)
        (await stage.lend()).release()
        await stage.pass_time(299.0)
        (await stage.lend()).release()
        assert stage.launcher.children[0].wakes == 0

    scene(story)


def test_a_failed_wake_is_a_load_failure(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.profiles["m"] = make_profile("m", sleep_s=300)
        (await stage.lend()).release()
        stage.launcher.children[0].fall_asleep()
        await stage.pass_time(302.0)
        waiting = stage.ask()
        await stage.loop.settle()
        stage.launcher.children[0].die()
        await stage.loop.settle()
        with pytest.raises(LoadFailed):
            await waiting

    scene(story)


def test_leases_are_revoked_before_the_child_is_told_to_stop(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        lease = await stage.lend()
        order: list[str] = []

        def let_go(error: LaneError) -> None:
            order.append(f"{error.code}, stops {stage.launcher.children[0].stops}")
            lease.release()

        lease.on_revoke(let_go)
        unloading = stage.loop.create_task(stage.dispatcher.unload("m", drain_s=5.0))
        await stage.loop.settle()
        assert stage.state() == "draining"
        await stage.pass_time(5.0)
        assert await unloading is True
        assert order == ["model-stopped, stops 0"]
        late: list[LaneError] = []
        lease.on_revoke(late.append)
        assert [error.code for error in late] == ["model-stopped"]

    scene(story)


def test_a_close_cuts_short_a_long_drain_that_was_begun_before(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.limits = Limits(drain_s=2.0)
        lease = await stage.lend()
        told: list[LaneError] = []
        lease.on_revoke(told.append)
        unloading = stage.loop.create_task(stage.dispatcher.unload("m", drain_s=1000.0))
        await stage.loop.settle()
        closing = stage.loop.create_task(stage.dispatcher.close())
        await stage.loop.settle()
        await stage.pass_time(2.0)
        assert len(told) == 1
        assert stage.launcher.children[0].stops == 0
        await stage.pass_time(1.0)
        assert closing.done()
        assert await unloading is True

    scene(story)


def test_two_models_that_arrive_together_do_not_both_take_the_last_room(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=12)
        first, second = stage.ask("a"), stage.ask("b")
        await stage.loop.settle()
        assert [first.done(), second.done()].count(True) == 1
        assert len(stage.launcher.alive()) == 1
        winner, loser = (first, second) if first.done() else (second, first)
        winner.result().release()
        await stage.loop.settle()
        assert loser.done()
        assert len(stage.launcher.alive()) == 1

    scene(story)

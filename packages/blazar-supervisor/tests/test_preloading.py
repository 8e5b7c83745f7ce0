"""Preloading on fakes: in order, beside each other, and never in anybody's way."""

import asyncio
from collections.abc import Coroutine, Iterator

import pytest

from blazar_routing.errors import ModelNotFound
from blazar_supervisor.residency.pools import Bytes, Pools
from blazar_supervisor.residency.preloading import PEG_TURN_S, Preloading, PreloadState, Wanted
from blazar_supervisor.testing import SteppedLoop, make_profile
from blazar_supervisor.testing.stage import Scene, Stage, play_on

GIB = 1 << 30


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = SteppedLoop()
    yield play_on(loop)
    loop.close()


def preloading(stage: Stage) -> Preloading:
    tasks: set[asyncio.Task[None]] = set()

    def started(work: Coroutine[object, object, None], name: str) -> None:
        del name
        tasks.add(stage.loop.create_task(work))

    return Preloading(stage.dispatcher, started=started)


def states(preloads: Preloading) -> list[tuple[str, str]]:
    return [(one.model, one.state.value) for one in preloads.states()]


def test_models_are_loaded_one_after_the_other_and_each_is_pegged(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.launcher.instant = False
        preloads = preloading(stage)
        running = stage.loop.create_task(preloads.run([Wanted("a"), Wanted("b")]))
        await stage.loop.settle()
        assert states(preloads) == [("a", "loading"), ("b", "waiting")]
        assert [child.model for child in stage.launcher.children] == ["a"]
        stage.launcher.children[0].become_ready()
        await stage.loop.settle()
        assert states(preloads) == [("a", "loaded"), ("b", "loading")]
        stage.launcher.children[1].become_ready()
        await stage.loop.settle()
        assert running.done()
        assert [child.pegs for child in stage.launcher.children] == [1, 1]
        assert [view.in_flight for view in stage.dispatcher.residents()] == [0, 0]

    scene(story)


def test_a_preload_makes_no_other_model_go_and_says_which(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=15)
        preloads = preloading(stage)
        await preloads.run([Wanted("a"), Wanted("b"), Wanted("c")])
        assert states(preloads) == [("a", "loaded"), ("b", "failed"), ("c", "loaded")]
        error = preloads.states()[1].error
        assert error is not None
        assert "there would be room only if 'a' is unloaded, and a [[preload]] makes no other model go" in error
        assert stage.state("a") == "ready"
        # Somebody who asks is another matter.
        (await stage.lend("b")).release()
        assert stage.state("a") is None

    scene(story)


def test_a_client_that_asks_for_what_is_being_preloaded_may_make_others_go(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.two_models_of_ten_gib(room_gib=15)
        holding = await stage.lend("a")
        preloads = preloading(stage)
        asked = stage.ask("b")
        running = stage.loop.create_task(preloads.run([Wanted("b")]))
        await stage.loop.settle()
        assert not asked.done()
        holding.release()
        await stage.loop.settle()
        asked.result().release()
        await running
        assert states(preloads) == [("b", "loaded")]

    scene(story)


def test_the_most_models_at_once_hold_for_preloads_too(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.memory = Pools(Bytes(host=99 * GIB), Bytes(host=99 * GIB))
        stage.max_loaded(1)
        preloads = preloading(stage)
        await preloads.run([Wanted("a"), Wanted("b")])
        assert states(preloads) == [("a", "loaded"), ("b", "failed")]

    scene(story)


def test_a_failed_preload_is_told_and_the_next_goes_on(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.errors["gone"] = ModelNotFound(model="gone")
        preloads = preloading(stage)
        await preloads.run([Wanted("gone"), Wanted("b")])
        gone, there = preloads.states()
        assert (gone.state, gone.error) == (PreloadState.FAILED, str(ModelNotFound(model="gone")))
        assert there.state is PreloadState.LOADED

    scene(story)
    assert "not preloaded: model 'gone' not found." in caplog.text


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        pytest.param(Wanted("a"), 1800.0, id="as the model's settings say"),
        pytest.param(Wanted("a", keep_s=60.0, own_keep=False), 60.0, id="a minute"),
        pytest.param(Wanted("a", keep_s=None, own_keep=False), None, id="for ever"),
    ],
)
def test_a_preloaded_model_stays_as_long_as_its_table_says(scene: Scene, wanted: Wanted, shown: float | None) -> None:
    async def story(stage: Stage) -> None:
        await preloading(stage).run([wanted])
        await stage.loop.settle()
        assert stage.dispatcher.residents()[0].expires_in_s == shown

    scene(story)


def test_a_peg_that_finds_no_slot_in_time_gives_up_and_leaves_nothing(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.profiles["a"] = make_profile("a", slots=1)
        holding = await stage.lend("a")
        pegging = stage.loop.create_task(stage.dispatcher.peg("a", turn_s=PEG_TURN_S, answer_s=1.0))
        await stage.loop.settle()
        await stage.pass_time(PEG_TURN_S - 1)
        assert not pegging.done()
        await stage.pass_time(1)
        with pytest.raises(TimeoutError):
            pegging.result()
        assert stage.dispatcher.waiting("a") is None
        holding.release()
        assert stage.launcher.children[0].pegs == 0

    scene(story)


def test_what_is_not_loaded_is_not_loaded_for_a_peg(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        assert await stage.dispatcher.peg("a", turn_s=1.0, answer_s=1.0) is False
        assert stage.launcher.children == []

    scene(story)


def test_a_stop_of_the_daemon_ends_the_preloads_without_a_word(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    async def story(stage: Stage) -> None:
        stage.launcher.instant = False
        preloads = preloading(stage)
        running = stage.loop.create_task(preloads.run([Wanted("a"), Wanted("b")]))
        await stage.loop.settle()
        closing = stage.loop.create_task(stage.dispatcher.close())
        await stage.loop.settle()
        assert running.done()
        assert closing.done()

    scene(story)
    assert "not preloaded" not in caplog.text

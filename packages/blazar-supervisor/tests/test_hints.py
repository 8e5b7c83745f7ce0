"""How well caches do: what engines count, what is made of it, and whom it is asked of."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_supervisor.engines.counters import Counters, read_exposition
from blazar_supervisor.residency.cache_hints import CacheHints, hints_after, share, smooth
from blazar_supervisor.residency.hints import ROUND_S, HintRounds
from blazar_supervisor.testing import SteppedLoop, make_profile
from blazar_supervisor.testing.stage import Scene, Stage, play_on


@pytest.fixture
def scene() -> Iterator[Scene]:
    loop = SteppedLoop()
    yield play_on(loop)
    loop.close()


def test_a_prometheus_text_is_read_and_what_is_no_sample_passed_over() -> None:
    text = (
        "# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.\n"
        "# TYPE llamacpp:prompt_tokens_total counter\n"
        "llamacpp:prompt_tokens_total 108\n"
        'requests_total{path="/a b",code="200"} 3 1700000000\n'
        'requests_total{path="/c",code="500"} 2\n'
        "ratio NaN\n"
        "endless +Inf\n"
        "broken\n"
        "\n"
        "worse x\n"
    )
    assert read_exposition(text) == {"llamacpp:prompt_tokens_total": 108.0, "requests_total": 5.0}


@given(st.text())
def test_any_text_is_read_without_a_fault(text: str) -> None:
    read_exposition(text)


@pytest.mark.parametrize(
    ("before", "now", "known", "expected"),
    [
        pytest.param(
            Counters(),
            Counters(100, 300, 50, 20),
            CacheHints(),
            CacheHints(0.75, 0.4),
            id="the first look stands alone",
        ),
        pytest.param(
            Counters(100, 300),
            Counters(200, 300),
            CacheHints(cache_hint=0.8),
            CacheHints(cache_hint=0.7 * 0.8),
            id="nothing of the last minute was cached",
        ),
        pytest.param(
            Counters(100, 300, 50, 20),
            Counters(100, 300, 50, 20),
            CacheHints(0.5, 0.6),
            CacheHints(0.5, 0.6),
            id="nothing happened",
        ),
        pytest.param(
            Counters(1000, 9000),
            Counters(50, 50),
            CacheHints(cache_hint=0.9),
            CacheHints(cache_hint=0.7 * 0.9 + 0.3 * 0.5),
            id="the counters began anew",
        ),
        pytest.param(
            Counters(), Counters(100, None, None, None), CacheHints(), CacheHints(), id="a build that does not count it"
        ),
        pytest.param(
            Counters(0, 0, 0, 0), Counters(10, 30, 0, 0), CacheHints(), CacheHints(0.75, None), id="no guesses made"
        ),
    ],
)
def test_what_grew_is_averaged_with_what_was_known(
    before: Counters, now: Counters, known: CacheHints, expected: CacheHints
) -> None:
    found = hints_after(before, now, known)
    assert found.cache_hint == pytest.approx(expected.cache_hint)
    assert found.spec_accept == pytest.approx(expected.spec_accept)


@given(st.lists(st.tuples(st.floats(0, 1e12), st.floats(0, 1e12)), max_size=20))
def test_shares_stay_shares(looks: list[tuple[float, float]]) -> None:
    known, before = CacheHints(), Counters()
    for prompt, cached in looks:
        now = Counters(prompt, cached, prompt, cached)
        known, before = hints_after(before, now, known), now
        assert known.cache_hint is None or 0.0 <= known.cache_hint <= 1.0
        assert known.spec_accept is None or 0.0 <= known.spec_accept <= 1.0


def test_the_weights_are_seven_tenths_and_three_tenths() -> None:
    assert smooth(1.0, 0.0) == pytest.approx(0.7)
    assert smooth(None, 0.4) == pytest.approx(0.4)
    assert smooth(0.4, None) == pytest.approx(0.4)
    assert share(3, 0) is None


def rounds_of(stage: Stage) -> HintRounds:
    return HintRounds(lambda: stage.dispatcher.census, clock=stage.loop.time)


def test_only_who_has_worked_since_the_last_round_is_asked(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        rounds = rounds_of(stage)
        (await stage.lend()).release()
        child = stage.launcher.children[0]
        child.counted = Counters(10, 30)
        await stage.pass_time(1.0)
        await rounds.round()
        assert child.questions == 0, "loaded, and its lease ended in the very moment it came up"
        await stage.pass_time(1.0)
        (await stage.lend()).release()
        await rounds.round()
        assert child.questions == 1
        assert stage.dispatcher.residents()[0].cache_hint == pytest.approx(0.75)
        await stage.pass_time(ROUND_S)
        await rounds.round()
        assert child.questions == 1, "asking would keep it from falling asleep"
        lease = await stage.lend()
        await rounds.round()
        assert child.questions == 2, "a request that runs is work"
        lease.release()

    scene(story)


def test_the_share_of_good_guesses_is_told_for_the_next_load(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        told: dict[str, float] = {}
        rounds = HintRounds(lambda: stage.dispatcher.census, clock=stage.loop.time, guessed=told.__setitem__)
        lease = await stage.lend()
        stage.launcher.children[0].counted = Counters(10, 30)
        await rounds.round()
        assert told == {}
        stage.launcher.children[0].counted = Counters(20, 60, 50, 10)
        await rounds.round()
        assert told == {"m": pytest.approx(0.2)}
        lease.release()

    scene(story)


def test_a_sleeper_is_not_asked(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        rounds = rounds_of(stage)
        (await stage.lend()).release()
        await stage.pass_time(1.0)
        (await stage.lend()).release()
        child = stage.launcher.children[0]
        child.counted = Counters(10, 30)
        child.fall_asleep()
        await rounds.round()
        assert child.questions == 0

    scene(story)


def test_a_child_that_does_not_answer_costs_its_hint_only(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        rounds = rounds_of(stage)
        await stage.lend("a")
        await stage.lend("b")
        stage.launcher.children[1].counted = Counters(10, 30)
        await rounds.round()
        hints = {view.child: view.cache_hint for view in stage.dispatcher.residents()}
        assert hints == {"a": None, "b": pytest.approx(0.75)}

    scene(story)


def test_of_equally_busy_replicas_the_one_whose_cache_hits_more_is_taken(scene: Scene) -> None:
    async def story(stage: Stage) -> None:
        stage.planner.profiles["m"] = make_profile("m", slots=2)
        stage.serve_with(replicas=2)
        leases = [await stage.lend() for _ in range(2)]
        third = stage.ask()
        await stage.loop.settle()
        for lease in (*leases, third.result()):
            lease.release()
        assert (await stage.lend()).child == "m", "the oldest of equals"
        assert (await stage.lend()).child == "m#2", "the least loaded"
        stage.launcher.children[1].counted = Counters(10, 30)
        await rounds_of(stage).round()
        for child in stage.dispatcher.census:
            for lease in tuple(child.leases):
                lease.release()
        assert (await stage.lend()).child == "m#2"

    scene(story)

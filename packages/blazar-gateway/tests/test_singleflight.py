"""Identical requests at once: who asks the engine, who shares, and what happens when anybody leaves at any moment."""

import asyncio
from dataclasses import dataclass, field

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.error_responses import EngineRefusal, WireError
from blazar_gateway.singleflight import Flight, Flights, is_deterministic
from blazar_gateway.testing import until
from blazar_routing.errors import ModelStopped


@pytest.mark.parametrize(
    ("fields", "deterministic"),
    [
        ({}, False),
        ({"temperature": 0}, True),
        ({"temperature": 0.0}, True),
        ({"temperature": 0.2}, False),
        ({"temperature": False}, False),
        ({"temperature": None}, False),
        ({"seed": 42}, True),
        ({"seed": 0}, True),
        ({"seed": -1}, False),
        ({"seed": 0xFFFFFFFF}, False),
        ({"seed": True}, False),
        ({"seed": "1"}, False),
        ({"temperature": 1.0, "seed": 7}, True),
    ],
)
def test_what_would_be_answered_the_same_again(fields: dict[str, object], deterministic: bool) -> None:
    assert is_deterministic(fields) is deterministic


@dataclass
class Asked:
    """One request, driven from outside."""

    flights: Flights[str]
    shares: bool
    key: str = "k"
    flight: Flight[str] | None = None
    asking: "asyncio.Future[str] | None" = None
    task: "asyncio.Task[web.StreamResponse] | None" = None
    said: list[str] = field(default_factory=list)

    def start(self) -> None:
        serve = self.flights.serve(self.key, shares=self.shares, lead=self._lead, share=self._share)
        self.task = asyncio.ensure_future(serve)

    async def _lead(self, flight: Flight[str] | None) -> web.StreamResponse:
        self.flight = flight
        self.asking = asyncio.get_running_loop().create_future()
        try:
            answer = await self.asking
        finally:
            self.asking = None
        if flight is not None:
            flight.publish(answer)
        return await self._share(answer)

    async def _share(self, answer: str) -> web.StreamResponse:
        self.said.append(answer)
        return web.Response()

    def evaluated(self) -> None:
        if self.flight is not None and self.asking is not None:
            self.flight.evaluated()

    def answer(self, text: str) -> None:
        if self.asking is not None and not self.asking.done():
            self.asking.set_result(text)

    def fail(self, error: Exception) -> None:
        if self.asking is not None and not self.asking.done():
            self.asking.set_exception(error)


async def settle() -> None:
    """Let everything happen that can happen without anybody else."""
    for _ in range(20):
        await asyncio.sleep(0)


STEPS = st.one_of(
    st.tuples(st.just("arrive"), st.just(0)),
    *(st.tuples(st.just(what), st.integers(0, 11)) for what in ("leave", "evaluate", "answer", "refuse", "break")),
)


@given(shares=st.booleans(), steps=st.lists(STEPS, max_size=40), hurried=st.lists(st.booleans(), max_size=40))
def test_nobody_is_forgotten_whoever_leaves_whenever(
    *, shares: bool, steps: list[tuple[str, int]], hurried: list[bool]
) -> None:
    async def play() -> None:
        flights: Flights[str] = Flights(window_s=3600)
        all_asked: list[Asked] = []
        left: set[int] = set()
        refused: set[int] = set()
        for number, (what, index) in enumerate(steps):
            if what == "arrive":
                asked = Asked(flights, shares)
                asked.start()
                all_asked.append(asked)
            elif index < len(all_asked):
                asked = all_asked[index]
                assert asked.task is not None
                match what:
                    case "leave":
                        if asked.task.cancel():
                            left.add(index)
                    case "evaluate":
                        asked.evaluated()
                    case "answer":
                        asked.answer(f"said by {index}")
                    case "refuse":
                        asked.fail(ModelStopped(model="m"))
                    case _:
                        asked.fail(RuntimeError("a fault"))
            if number >= len(hurried) or not hurried[number]:
                await settle()
            if shares:
                asking = [each for each in all_asked if each.asking is not None]
                assert len(asking) <= 1 or (number < len(hurried) and hurried[number])
        # Whoever asks now is answered, until nobody does; then nobody may be waiting.
        for _ in range(len(all_asked) + 1):
            await settle()
            for index, asked in enumerate(all_asked):
                asked.answer(f"said by {index}")
        await settle()
        assert len(flights) == 0
        for index, asked in enumerate(all_asked):
            assert asked.task is not None
            assert asked.task.done(), f"request {index} waits for ever"
            if asked.task.cancelled():
                assert index in left
            elif (error := asked.task.exception()) is not None:
                assert isinstance(error, ModelStopped | RuntimeError)
                refused.add(index)
                # Only a refusal is shared; a fault of ours is its own request's alone.
                assert isinstance(error, ModelStopped) or ("break", index) in steps
            else:
                assert len(asked.said) == 1
        assert not refused or any(what in {"refuse", "break"} for what, _ in steps)

    asyncio.run(play())


async def three(*, shares: bool) -> list[Asked]:
    flights: Flights[str] = Flights(window_s=3600)
    asked = [Asked(flights, shares) for _ in range(3)]
    for each in asked:
        each.start()
        await settle()
    return asked


async def test_the_same_answer_is_asked_for_once() -> None:
    leader, *followers = await three(shares=True)
    leader.answer("x")
    await settle()
    assert [each.said for each in (leader, *followers)] == [["x"]] * 3
    assert leader.flights.shared == 2


async def test_what_may_differ_waits_for_the_prefill_only() -> None:
    leader, *followers = await three(shares=False)
    assert all(each.asking is None for each in followers)
    leader.evaluated()
    await settle()
    assert all(each.asking is not None for each in (leader, *followers))
    for number, each in enumerate((leader, *followers)):
        each.answer(str(number))
    await settle()
    assert [each.said for each in (leader, *followers)] == [["0"], ["1"], ["2"]]
    assert leader.flights.warmed == 2


@pytest.mark.parametrize("shares", [True, False])
async def test_when_the_leader_leaves_the_next_one_leads(shares: bool) -> None:
    leader, second, third = await three(shares=shares)
    assert leader.task is not None
    leader.task.cancel()
    await settle()
    assert second.asking is not None
    assert third.asking is None
    second.answer("y")
    await settle()
    third.answer("z")
    await settle()
    assert second.said == ["y"]
    assert third.said == (["y"] if shares else ["z"])


async def test_a_follower_that_leaves_disturbs_nobody() -> None:
    leader, second, third = await three(shares=True)
    assert second.task is not None
    second.task.cancel()
    await settle()
    assert leader.asking is not None
    leader.answer("x")
    await settle()
    assert (second.said, third.said) == ([], ["x"])


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize(
    "refusal", [ModelStopped(model="m"), EngineRefusal(WireError(400, "t", "c", "no"))], ids=["ours", "the engine's"]
)
async def test_a_refusal_is_for_all_who_waited(shares: bool, refusal: Exception) -> None:
    leader, *followers = await three(shares=shares)
    leader.fail(refusal)
    await settle()
    for each in (leader, *followers):
        assert each.task is not None
        assert each.task.exception() is refusal


async def test_an_older_flight_is_not_joined() -> None:
    flights: Flights[str] = Flights(window_s=0.0)
    first, second = Asked(flights, True), Asked(flights, True)
    first.start()
    await settle()
    second.start()
    await settle()
    assert second.asking is not None
    # The older one's followers and end do not touch the newer.
    first.answer("1")
    await settle()
    assert len(flights) == 1
    second.answer("2")
    await settle()
    assert (first.said, second.said, len(flights)) == (["1"], ["2"], 0)


async def test_nobody_waits_longer_for_a_prefill_than_the_window() -> None:
    flights: Flights[str] = Flights(window_s=0.05)
    leader, follower = Asked(flights, False), Asked(flights, False)
    leader.start()
    await settle()
    follower.start()
    await until(lambda: follower.asking is not None)
    leader.answer("a")
    follower.answer("b")
    await settle()
    assert (leader.said, follower.said) == (["a"], ["b"])

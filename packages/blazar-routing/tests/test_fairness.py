"""Shares under saturation, classes, deadlines: the order in which a line is served."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blazar_routing.fairness import RESET_AT, Credits
from blazar_routing.line import SLO_S, Line, Waiting
from blazar_routing.queue import AdmissionQueue, Capacity, Grant
from blazar_routing.ticket import Priority, Ticket

ONE_FREE = Capacity(ready=True, free_slots=1, total_slots=1)
HIGH, NORMAL, LOW = Priority.HIGH, Priority.NORMAL, Priority.LOW


def served(queue: AdmissionQueue, now_s: float = 0) -> int:
    [decision] = queue.decide({"m": ONE_FREE}, now_s=now_s)
    assert isinstance(decision, Grant)
    return decision.place


def order(tickets: list[tuple[float, Ticket]], now_s: float) -> list[int]:
    """Serve the tickets, given with their arrival times, one by one at ``now_s``; return their indices."""
    queue = AdmissionQueue()
    places = [queue.arrive(ticket, now_s=arrived_s) for arrived_s, ticket in tickets]
    return [places.index(served(queue, now_s)) for _ in places]


@pytest.mark.parametrize(
    ("tickets", "now_s", "expected"),
    [
        pytest.param([(0, Ticket("m", priority=p)) for p in (LOW, NORMAL, HIGH)], 1, [2, 1, 0], id="classes-in-order"),
        pytest.param(
            [(0, Ticket("m", priority=LOW)), (119, Ticket("m", priority=HIGH))],
            120,
            [0, 1],
            id="a-low-request-that-is-due-goes-before-a-fresh-high-one",
        ),
        pytest.param(
            [(0, Ticket("m")), (1, Ticket("m", deadline_s=25)), (2, Ticket("m", deadline_s=20))],
            3,
            [2, 1, 0],
            id="earliest-deadline-first",
        ),
        pytest.param(
            [(0, Ticket("m", key="idle")), (0, Ticket("m", key="busy", deadline_s=25))],
            1,
            [1, 0],
            id="a-deadline-overrides-the-share",
        ),
        pytest.param(
            [(0, Ticket("m", priority=LOW, deadline_s=60)), (0, Ticket("m"))],
            1,
            [1, 0],
            id="but-not-the-class",
        ),
        pytest.param(
            [(0, Ticket("m")), (0, Ticket("m", priority=LOW, deadline_s=10))],
            8.5,
            [1, 0],
            id="until-the-deadline-is-near",
        ),
        pytest.param(
            [(0, Ticket("m", key="a")), (0, Ticket("m", key="a")), (0, Ticket("m", key="b"))],
            1,
            [0, 2, 1],
            id="keys-alternate",
        ),
    ],
)
def test_the_order_of_service(tickets: list[tuple[float, Ticket]], now_s: float, expected: list[int]) -> None:
    assert order(tickets, now_s) == expected


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 8), min_size=2, max_size=5),
    st.floats(0, 200),
)
def test_shares_under_saturation_are_within_five_percent_of_the_weights(weights: dict[str, int], now_s: float) -> None:
    queue = AdmissionQueue()
    owner = {}
    for key, weight in weights.items():
        for _ in range(2):
            owner[queue.arrive(Ticket("m", key=key, weight=weight), now_s=0)] = key
    serves: Counter[str] = Counter()
    rounds = 100 * sum(weights.values())
    for _ in range(rounds):
        key = owner[served(queue, now_s)]
        serves[key] += 1
        owner[queue.arrive(Ticket("m", key=key, weight=weights[key]), now_s=now_s)] = key
    for key, weight in weights.items():
        assert serves[key] / rounds == pytest.approx(weight / sum(weights.values()), rel=0.05)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(Priority), st.sampled_from("abc"), st.integers(1, 4)), min_size=1, max_size=40)
)
def test_nobody_starves_whatever_keeps_arriving(crowd: list[tuple[Priority, str, int]]) -> None:
    """A LOW request of a light key is served although fresh HIGH ones of other keys arrive with every serve."""
    queue = AdmissionQueue(limit=10_000)
    victim = queue.arrive(Ticket("m", key="victim", priority=LOW), now_s=0)
    now_s = 0.0
    for step in range(2000):
        priority, key, weight = crowd[step % len(crowd)]
        queue.arrive(Ticket("m", key=key, priority=priority, weight=weight), now_s=now_s)
        now_s += 1.0
        if served(queue, now_s) == victim:
            break
    assert queue.position(victim) is None
    # Once due it shares the HIGH class with at most three keys of weight at most 4.
    assert now_s <= SLO_S[LOW] + 4 * 3 + 2


def test_wide_requests_cost_their_slots() -> None:
    credits = Credits()
    credits.join("wide", ())
    credits.join("narrow", ("wide",))
    credits.spend("wide", slots=4, weight=1)
    for _ in range(3):
        assert credits.least(["wide", "narrow"]) == "narrow"
        credits.spend("narrow", slots=1, weight=1)
    assert credits.least(["wide", "narrow"]) == "narrow"
    credits.spend("narrow", slots=1, weight=1)
    assert credits.least(["wide", "narrow"]) == "wide"


def test_time_away_is_not_saved_up() -> None:
    credits = Credits()
    credits.join("stayed", ())
    for _ in range(10):
        credits.spend("stayed", slots=1, weight=1)
    credits.join("returned", ("stayed",))
    credits.spend("returned", slots=1, weight=1)
    assert credits.least(["returned", "stayed"]) == "stayed"


def test_a_rebase_keeps_the_differences() -> None:
    credits = Credits()
    credits.join("a", ())
    credits.join("b", ("a",))
    for _ in range(int(RESET_AT) - 1):
        credits.spend("a", slots=1, weight=1)
        credits.spend("b", slots=1, weight=1)
    credits.spend("a", slots=1, weight=1)
    assert credits.least(["a", "b"]) == "b"
    credits.spend("b", slots=1, weight=1)
    assert credits.least(["a", "b"]) == "a"


def test_a_lone_key_starts_anew_at_the_limit() -> None:
    credits = Credits()
    for _ in range(int(RESET_AT) * 3):
        credits.spend("a", slots=1, weight=1)
    credits.join("b", ("a",))
    assert len(credits) == 2


def test_the_table_of_keys_empties_with_the_line() -> None:
    queue = AdmissionQueue()
    for number in range(50):
        queue.arrive(Ticket("m", key=f"key-{number}"), now_s=0)
    for _ in range(50):
        served(queue)
    assert len(queue._credits) == 0


def test_a_line_remembers_order_of_arrival() -> None:
    line = Line()
    for place, priority in enumerate((LOW, HIGH, NORMAL)):
        line.add(Waiting(place, Ticket("m", priority=priority), arrived_s=place))
    assert [waiting.place for waiting in line] == [0, 1, 2]
    assert line.oldest().place == 0
    assert line.most_urgent_due_s() == 1 + SLO_S[HIGH]
    assert line.remove(9) is None

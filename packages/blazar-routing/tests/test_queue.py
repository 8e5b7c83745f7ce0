"""The admission queue: who goes, who waits, who is told no."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from blazar_routing.errors import QueueFull
from blazar_routing.queue import ABSENT, AdmissionQueue, Capacity, Grant, Load, Refuse
from blazar_routing.ticket import Priority, Ticket


def ready(free: int, total: int = 4, cells: int | None = None) -> Capacity:
    return Capacity(
        ready=True, free_slots=free, total_slots=total, free_cells=cells, total_cells=4096 if cells else None
    )


def test_a_request_for_an_absent_model_asks_for_one_load() -> None:
    queue = AdmissionQueue()
    queue.arrive(Ticket("a"), now_s=0)
    queue.arrive(Ticket("a"), now_s=0)
    assert queue.decide({}, now_s=0) == [Load("a")]
    assert queue.decide({"a": Capacity(loading=True)}, now_s=1) == []
    assert queue.waiting("a") == 2


def test_requests_are_granted_in_order_while_slots_last() -> None:
    queue = AdmissionQueue()
    places = [queue.arrive(Ticket("a"), now_s=0) for _ in range(3)]
    assert queue.decide({"a": ready(2)}, now_s=0) == [Grant(places[0]), Grant(places[1])]
    assert queue.position(places[2]) == 0
    assert queue.decide({"a": ready(1)}, now_s=0) == [Grant(places[2])]
    assert len(queue) == 0


def test_a_wide_request_is_not_overtaken_by_narrow_ones() -> None:
    queue = AdmissionQueue()
    wide = queue.arrive(Ticket("a", slots=3), now_s=0)
    narrow = queue.arrive(Ticket("a"), now_s=0)
    assert queue.decide({"a": ready(2)}, now_s=0) == []
    assert queue.decide({"a": ready(4)}, now_s=0) == [Grant(wide), Grant(narrow)]


@pytest.mark.parametrize(
    ("ticket", "capacity", "passes"),
    [
        pytest.param(Ticket("a"), ready(1), True, id="a-free-slot"),
        pytest.param(Ticket("a"), ready(0), False, id="no-free-slot"),
        pytest.param(Ticket("a", slots=0), ready(0), True, id="a-call-without-a-slot"),
        pytest.param(Ticket("a", slots=0), ABSENT, False, id="but-not-without-a-child"),
        pytest.param(Ticket("a", slots=9), ready(4), True, id="more-than-there-are-takes-all"),
        pytest.param(Ticket("a", slots=9), ready(3), False, id="more-than-there-are-waits-for-all"),
        pytest.param(Ticket("a", cells=100), ready(4, cells=100), True, id="cells-just-enough"),
        pytest.param(Ticket("a", cells=101), ready(4, cells=100), False, id="cells-short"),
        pytest.param(Ticket("a", cells=9999), ready(4, cells=4096), True, id="more-cells-than-there-are-takes-all"),
        pytest.param(Ticket("a", cells=9999), ready(4, cells=4095), False, id="and-waits-until-all-are-free"),
    ],
)
def test_what_may_pass_without_waiting(ticket: Ticket, capacity: Capacity, *, passes: bool) -> None:
    assert AdmissionQueue().may_pass(ticket, capacity) is passes
    queue = AdmissionQueue()
    place = queue.arrive(ticket, now_s=0)
    assert (Grant(place) in queue.decide({"a": capacity}, now_s=0)) is passes


def test_nobody_passes_those_who_wait() -> None:
    queue = AdmissionQueue()
    queue.arrive(Ticket("a", slots=4), now_s=0)
    assert not queue.may_pass(Ticket("a"), ready(2))
    assert queue.may_pass(Ticket("b"), ready(2))


def test_a_missed_deadline_is_refused_and_gone() -> None:
    queue = AdmissionQueue()
    patient = queue.arrive(Ticket("a"), now_s=10)
    hasty = queue.arrive(Ticket("a", deadline_s=2), now_s=10)
    assert queue.next_deadline_s() == 12
    assert queue.decide({"a": ready(0)}, now_s=11.9) == []
    [refusal] = queue.decide({"a": ready(0)}, now_s=12)
    assert isinstance(refusal, Refuse)
    assert refusal.place == hasty
    assert refusal.error.waited_s == 2
    assert queue.position(hasty) is None
    assert queue.position(patient) == 0
    assert queue.next_deadline_s() is None


def test_a_full_line_refuses_with_advice() -> None:
    queue = AdmissionQueue(limit=1)
    queue.arrive(Ticket("a"), now_s=0)
    queue.arrive(Ticket("b"), now_s=0)
    with pytest.raises(QueueFull, match="1 requests wait already"):
        queue.arrive(Ticket("a"), now_s=0)


def test_withdrawing_lets_the_next_go_first() -> None:
    queue = AdmissionQueue()
    first = queue.arrive(Ticket("a"), now_s=0)
    second = queue.arrive(Ticket("a"), now_s=0)
    assert queue.withdraw(first)
    assert not queue.withdraw(first)
    assert queue.position(second) == 0
    assert queue.withdraw_all("a") == (second,)
    assert queue.withdraw_all("a") == ()
    assert list(queue.models()) == []


def test_a_model_that_waited_longer_is_loaded_first() -> None:
    queue = AdmissionQueue()
    queue.arrive(Ticket("b"), now_s=0)
    queue.arrive(Ticket("a"), now_s=1)
    assert queue.decide({}, now_s=1) == [Load("b"), Load("a")]


@pytest.mark.parametrize(
    ("before", "after"),
    [(Priority.HIGH, Priority.NORMAL), (Priority.NORMAL, Priority.LOW), (Priority.LOW, Priority.LOW)],
)
def test_demotion_stops_at_the_lowest_class(before: Priority, after: Priority) -> None:
    assert before.demoted() is after


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(1, 5))
def test_grants_never_exceed_the_free_slots(wanted: list[int], total: int) -> None:
    queue = AdmissionQueue()
    tickets = {queue.arrive(Ticket("a", slots=slots), now_s=0): slots for slots in wanted}
    granted = [
        decision.place for decision in queue.decide({"a": ready(total, total)}, now_s=0) if isinstance(decision, Grant)
    ]
    assert sum(min(tickets[place], total) for place in granted) <= total
    assert granted == sorted(granted)
    assert len(queue) == len(wanted) - len(granted)


class QueueMachine(RuleBasedStateMachine):
    """Arrivals, leavers and grants in any order, against a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = AdmissionQueue()
        self.waiting: dict[str, list[int]] = {"a": [], "b": []}

    @rule(model=st.sampled_from("ab"))
    def arrive(self, model: str) -> None:
        self.waiting[model].append(self.queue.arrive(Ticket(model), now_s=0))

    @rule(model=st.sampled_from("ab"), index=st.integers(0, 20))
    def leave(self, model: str, index: int) -> None:
        line = self.waiting[model]
        if index < len(line):
            assert self.queue.withdraw(line.pop(index))

    @rule(model=st.sampled_from("ab"), free=st.integers(0, 4))
    def decide(self, model: str, free: int) -> None:
        for decision in self.queue.decide({model: ready(free)}, now_s=0):
            if isinstance(decision, Grant):
                assert self.waiting[model].pop(0) == decision.place

    @invariant()
    def nobody_is_lost(self) -> None:
        assert len(self.queue) == sum(map(len, self.waiting.values()))
        for line in self.waiting.values():
            assert [self.queue.position(place) for place in line] == list(range(len(line)))


TestQueueMachine = QueueMachine.TestCase

"""Models that take turns: when one gives way, and that nobody thrashes, starves or is cut off."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from blazar_routing.queue import AdmissionQueue, Capacity, Grant, Load
from blazar_routing.ticket import Priority, Ticket
from blazar_routing.turns import Challenger, Holder, TurnRule, gives_way, gives_way_at_s

RULE = TurnRule(min_turn_s=5, max_turn_s=60, turn_per_load=4, max_swaps_per_minute=30)


@pytest.mark.parametrize(
    ("load_s", "turn_s"),
    [pytest.param(0.5, 5, id="shortest"), pytest.param(5, 20, id="four-loads"), pytest.param(60, 60, id="longest")],
)
def test_the_length_of_a_turn(load_s: float, turn_s: float) -> None:
    assert RULE.turn_s(load_s) == turn_s


@pytest.mark.parametrize(
    ("holder", "challenger", "now_s", "expected"),
    [
        pytest.param(Holder(0, 1, 0, None), Challenger(0, 30, 1), 0, True, id="idle-gives-way-at-once"),
        pytest.param(Holder(0, 1, 1, None), Challenger(0, 30, 1), 4.9, False, id="a-running-answer-keeps-the-turn"),
        pytest.param(Holder(0, 1, 1, None), Challenger(0, 30, 1), 5, True, id="until-the-turn-is-over"),
        pytest.param(Holder(0, 1, 4, 40), Challenger(0, 30, 1), 5, True, id="the-more-urgent-goes"),
        pytest.param(Holder(0, 1, 4, 20), Challenger(0, 30, 1), 5, False, id="the-less-urgent-waits"),
        pytest.param(Holder(0, 1, 4, 29.5), Challenger(0, 30, 1), 5, True, id="its-load-counts-against-its-due-time"),
        pytest.param(Holder(0, 1, 4, 20), Challenger(0, 300, 1), 60, True, id="but-no-longer-than-the-longest-turn"),
        pytest.param(Holder(0, 1, 4, 2), Challenger(0, 2, 1), 3, False, id="urgency-never-cuts-a-turn-short"),
    ],
)
def test_giving_way(holder: Holder, challenger: Challenger, now_s: float, *, expected: bool) -> None:
    assert gives_way(RULE, holder, challenger, now_s=now_s) is expected
    if not expected:
        at_s = gives_way_at_s(RULE, holder, challenger)
        assert at_s > now_s
        assert gives_way(RULE, holder, challenger, now_s=at_s)


def holding(in_flight: int, *, free: int = 0, since_s: float = 0) -> Capacity:
    return Capacity(ready=True, free_slots=free, total_slots=4, in_flight=in_flight, ready_since_s=since_s, load_s=1.0)


def room_for_one(model: str) -> tuple[str, ...]:
    return tuple(name for name in "ab" if name != model)


def test_an_idle_model_is_evicted_for_one_that_is_wanted() -> None:
    queue = AdmissionQueue(rule=RULE)
    queue.arrive(Ticket("b"), now_s=0)
    assert queue.decide({"a": holding(0, free=4)}, now_s=0, room=room_for_one) == [Load("b", ("a",))]


def test_running_answers_finish_before_the_model_goes_and_nothing_new_starts() -> None:
    queue = AdmissionQueue(rule=RULE)
    queue.arrive(Ticket("b"), now_s=0)
    assert queue.decide({"a": holding(1, free=3)}, now_s=1, room=room_for_one) == []
    assert queue.decide({"a": holding(1, free=3)}, now_s=5, room=room_for_one) == []
    assert queue.giving_way("a") == "b"
    late = Ticket("a")
    assert not queue.may_pass(late, holding(1, free=3))
    queue.arrive(late, now_s=6)
    assert queue.decide({"a": holding(1, free=3)}, now_s=6, room=room_for_one) == []
    assert queue.decide({"a": holding(0, free=4)}, now_s=7, room=room_for_one) == [Load("b", ("a",))]


def test_a_challenger_that_leaves_gives_the_turn_back() -> None:
    queue = AdmissionQueue(rule=RULE)
    challenger = queue.arrive(Ticket("b"), now_s=0)
    queue.decide({"a": holding(1, free=3)}, now_s=5, room=room_for_one)
    waiting = queue.arrive(Ticket("a"), now_s=6)
    queue.withdraw(challenger)
    assert queue.decide({"a": holding(1, free=3)}, now_s=6, room=room_for_one) == [Grant(waiting)]
    assert queue.giving_way("a") is None


def test_swaps_are_bounded_in_any_minute() -> None:
    queue = AdmissionQueue(rule=TurnRule(max_swaps_per_minute=2))
    loads = []
    for second in range(0, 120, 10):
        queue.arrive(Ticket("b"), now_s=second)
        loads += [
            second
            for d in queue.decide({"a": holding(0, free=4)}, now_s=second, room=room_for_one)
            if isinstance(d, Load)
        ]
        queue.withdraw_all("b")
    assert loads == [0, 10, 60, 70]


def test_a_model_with_room_loads_without_evicting_anybody() -> None:
    queue = AdmissionQueue(rule=RULE)
    queue.arrive(Ticket("b"), now_s=0)
    assert queue.decide({"a": holding(3)}, now_s=0) == [Load("b")]


def test_the_next_event_is_the_end_of_the_turn_or_a_deadline() -> None:
    queue = AdmissionQueue(rule=RULE)
    assert queue.next_event_s({}) is None
    queue.arrive(Ticket("b"), now_s=0)
    assert queue.next_event_s({"a": holding(1)}, room_for_one) == 5
    queue.arrive(Ticket("b", deadline_s=3), now_s=0)
    assert queue.next_event_s({"a": holding(1)}, room_for_one) == 3


class OneRoomMachine(RuleBasedStateMachine):
    """Three models, room for one, two slots: a small dispatcher drives the production queue on a fake clock."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = AdmissionQueue(rule=RULE)
        self.now_s = 0.0
        self.loaded: str | None = None
        self.since_s = 0.0
        self.running: dict[int, float] = {}
        self.arrived: dict[int, tuple[str, float]] = {}
        self.longest_answer_s = 0.0

    def capacities(self) -> dict[str, Capacity]:
        if self.loaded is None:
            return {}
        return {
            self.loaded: Capacity(
                ready=True,
                free_slots=2 - len(self.running),
                total_slots=2,
                in_flight=len(self.running),
                ready_since_s=self.since_s,
                load_s=1.0,
            )
        }

    def act(self) -> None:
        while decisions := self.queue.decide(self.capacities(), now_s=self.now_s, room=self.room):
            loads = [decision for decision in decisions if isinstance(decision, Load)]
            for decision in decisions:
                if isinstance(decision, Grant):
                    model, _ = self.arrived.pop(decision.place)
                    assert model == self.loaded
                    assert len(self.running) < 2
                    self.running[decision.place] = self.now_s
            if loads:
                # Only the first counts: after it there is no room for the others.
                assert not self.running, "nothing is thrown out while it runs"
                assert loads[0].evict in ((), (self.loaded,))
                self.now_s += 1.0
                self.loaded, self.since_s = loads[0].model, self.now_s

    def room(self, model: str) -> tuple[str, ...]:
        return () if self.loaded in (None, model) else (str(self.loaded),)

    @rule(model=st.sampled_from("abc"), priority=st.sampled_from(Priority), key=st.sampled_from("xy"))
    def arrive(self, model: str, priority: Priority, key: str) -> None:
        place = self.queue.arrive(Ticket(model, key=key, priority=priority), now_s=self.now_s)
        self.arrived[place] = (model, self.now_s)
        self.act()

    @rule(index=st.integers(0, 5))
    def leave(self, index: int) -> None:
        if index < len(self.arrived):
            place = sorted(self.arrived)[index]
            del self.arrived[place]
            assert self.queue.withdraw(place)
            self.act()

    @rule()
    def finish_one(self) -> None:
        if self.running:
            self.running.pop(min(self.running))
            self.act()

    @rule(seconds=st.floats(0.1, 4))
    def pass_time(self, seconds: float) -> None:
        """Let time pass; no answer runs longer than ten seconds."""
        self.now_s += seconds
        for place in [place for place, since_s in self.running.items() if self.now_s - since_s > 10]:
            del self.running[place]
        self.act()

    @invariant()
    def nobody_is_lost(self) -> None:
        assert len(self.queue) == len(self.arrived)

    @invariant()
    def nobody_waits_longer_than_the_stated_bound(self) -> None:
        # Two other models' turns, each with its drain and load, then this one's turn at its own slots.
        per_turn_s = RULE.max_turn_s + 14 + 1
        crowd = len(self.arrived)
        for _, arrived_s in self.arrived.values():
            assert self.now_s - arrived_s <= 3 * per_turn_s + crowd * 14


TestOneRoom = OneRoomMachine.TestCase
TestOneRoom.settings = settings(max_examples=40, stateful_step_count=50, deadline=None)

import itertools

import pytest

from blazar_supervisor.residency.states import TRANSITIONS, ChildState, IllegalTransition, check_transition


def reachable(start: ChildState) -> set[ChildState]:
    found, new = set[ChildState](), {start}
    while new:
        found |= new
        new = {after for before in new for after in TRANSITIONS[before]} - found
    return found


def test_every_state_has_its_row_and_can_be_reached() -> None:
    assert set(TRANSITIONS) == set(ChildState)
    assert reachable(ChildState.ABSENT) == set(ChildState)


@pytest.mark.parametrize("state", ChildState)
def test_from_every_state_there_is_a_way_back_to_absent(state: ChildState) -> None:
    assert ChildState.ABSENT in reachable(state)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(ChildState.STOPPING, ChildState.READY, id="a-stop-is-not-taken-back"),
        pytest.param(ChildState.STOPPING, ChildState.FAILED, id="a-killed-sleeper-is-no-crash"),
        pytest.param(ChildState.FAILED, ChildState.STARTING, id="a-new-life-is-a-new-object"),
        pytest.param(ChildState.SLEEPING, ChildState.DRAINING, id="a-sleeper-has-nothing-to-drain"),
    ],
)
def test_what_must_not_happen_is_not_in_the_table(before: ChildState, after: ChildState) -> None:
    with pytest.raises(IllegalTransition):
        check_transition(before, after)


def test_the_check_agrees_with_the_table() -> None:
    for before, after in itertools.product(ChildState, ChildState):
        if after in TRANSITIONS[before]:
            check_transition(before, after)

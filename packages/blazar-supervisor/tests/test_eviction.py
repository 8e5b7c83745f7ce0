"""Who has to go: tables, and laws over any set of children."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_supervisor.residency.eviction import Holding, Room, find_room
from blazar_supervisor.residency.pools import Bytes, Pools, total


def child(key: str, host: int, *, used: float = 0.0, busy: bool = False, ready: float = 0.0) -> Holding:
    return Holding(key=key, model=key, holds=Bytes(host), last_used_s=used, ready_since_s=ready, busy=busy)


A, B, C = child("a", 10, used=1), child("b", 10, used=2), child("c", 10, used=3)
PINNED = replace(A, pinned=True)


@pytest.mark.parametrize(
    ("need", "free", "holdings", "expected"),
    [
        pytest.param(5, 5, [A, B], Room(), id="there-is-room"),
        pytest.param(10, 5, [A, B, C], Room(("a",)), id="least-recently-used-first"),
        pytest.param(20, 5, [A, B, C], Room(("a", "b")), id="as-many-as-needed"),
        pytest.param(20, 5, [child("small", 4, used=0), child("big", 16, used=1)], Room(("big",)), id="not-more"),
        pytest.param(10, 0, [replace(A, busy=True), B], Room(("b",)), id="idle-before-busy"),
        pytest.param(10, 0, [replace(A, busy=True)], Room(("a",)), id="busy-if-nothing-else-helps"),
        pytest.param(
            10, 0, [child("x", 10, busy=True, ready=9), child("y", 10, busy=True, ready=5)], Room(("y",)),
            id="of-the-busy-the-longest-loaded",
        ),
        pytest.param(10, 0, [PINNED, B], Room(("b",)), id="a-pinned-one-stays"),
        pytest.param(10, 0, [PINNED], Room(possible=False, pinned=("a",)), id="only-a-pin-is-in-the-way"),
        pytest.param(99, 0, [PINNED, B], Room(possible=False), id="hopeless-names-no-pin"),
        pytest.param(10, 0, [replace(A, going=True)], Room(), id="what-goes-already-counts-as-gone"),
        pytest.param(0, -5, [A], Room(), id="a-need-of-nothing-fits-anywhere"),
    ],
)  # fmt: skip
def test_who_has_to_go(need: int, free: int, holdings: list[Holding], expected: Room) -> None:
    assert find_room(Bytes(need), Bytes(free), holdings) == expected


def test_a_limit_on_their_number_sends_the_least_recently_used_away() -> None:
    assert find_room(Bytes(), Bytes(100), [A, B], max_loaded=2).victims == ("a",)
    assert find_room(Bytes(), Bytes(100), [A, B], max_loaded=3).victims == ()


def test_both_pools_must_have_room() -> None:
    on_gpu = replace(A, holds=Bytes(0, 10))
    assert find_room(Bytes(1, 5), Bytes(1, 0), [on_gpu, B]).victims == ("a",)


holdings = st.lists(
    st.builds(
        Holding,
        key=st.uuids().map(str),
        model=st.just("m"),
        holds=st.builds(Bytes, st.integers(0, 20), st.integers(0, 20)),
        last_used_s=st.floats(0, 100),
        ready_since_s=st.floats(0, 100),
        busy=st.booleans(),
        pinned=st.booleans(),
        going=st.booleans(),
    ),
    max_size=8,
)
amounts = st.builds(Bytes, st.integers(0, 60), st.integers(0, 60))


@given(need=amounts, free=amounts, children=holdings)
def test_the_set_is_sufficient_minimal_and_spares_the_pinned(need: Bytes, free: Bytes, children: list[Holding]) -> None:
    room = find_room(need, free, children)
    by_key = {child.key: child for child in children}
    victims = [by_key[key] for key in room.victims]
    assert not any(victim.pinned or victim.going for victim in victims)
    free_then = free + total(child.holds for child in children if child.going)
    everybody = free_then + total(child.holds for child in children if not child.going and not child.pinned)
    assert room.possible is everybody.covers(need)
    if not room.possible:
        assert victims == []
        return
    assert (free_then + total(victim.holds for victim in victims)).covers(need)
    for spared in victims:
        assert not (free_then + total(other.holds for other in victims if other is not spared)).covers(need)


@pytest.mark.parametrize(
    ("available", "unmapped", "foreign"),
    [
        pytest.param(24, 0, 0, id="nothing-runs"),
        pytest.param(18, 2, 4, id="mapped-weights-count-as-available"),
        pytest.param(23, 5, 0, id="never-less-than-nothing"),
    ],
)
def test_what_others_use_is_what_is_used_less_what_children_hold(available: int, unmapped: int, foreign: int) -> None:
    assert Pools(Bytes(24), Bytes(available)).foreign(Bytes(unmapped)) == Bytes(foreign)

import pytest

from blazar_routing.errors import BreakerOpen
from blazar_supervisor.residency.breaker import LONGEST_PAUSE_S, Breakers


def died(breakers: Breakers, times: int, *, now_s: float = 0.0) -> None:
    for _ in range(times):
        breakers.died("m", now_s=now_s, tail=("last words",))


def is_open(breakers: Breakers, now_s: float) -> bool:
    try:
        breakers.check("m", model="m", now_s=now_s)
    except BreakerOpen:
        return True
    return False


@pytest.mark.parametrize(("deaths", "opened"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
def test_the_third_death_in_a_row_opens(deaths: int, opened: bool) -> None:
    breakers = Breakers()
    died(breakers, deaths)
    assert is_open(breakers, 1.0) is opened


@pytest.mark.parametrize(
    ("deaths", "pause_s"), [(3, 10.0), (4, 20.0), (5, 40.0), (8, LONGEST_PAUSE_S), (60, LONGEST_PAUSE_S)]
)
def test_it_closes_by_itself_after_a_pause_that_doubles_up_to_a_bound(deaths: int, pause_s: float) -> None:
    breakers = Breakers()
    died(breakers, deaths, now_s=100.0)
    assert is_open(breakers, 100.0 + pause_s - 0.1)
    assert not is_open(breakers, 100.0 + pause_s)


def test_a_clean_end_forgets() -> None:
    breakers = Breakers()
    died(breakers, 3)
    breakers.forget("m")
    assert not is_open(breakers, 0.0)
    assert breakers.crashes("m") == 0


def test_the_refusal_quotes_the_child_and_says_when() -> None:
    breakers = Breakers()
    died(breakers, 3, now_s=100.0)
    with pytest.raises(BreakerOpen, match="died 3 times in a row; the next start is tried in 7 s") as caught:
        breakers.check("m", model="m", now_s=103.0)
    assert "last words" in str(caught.value)
    assert caught.value.retry_after_s == 7


def test_another_model_is_not_concerned() -> None:
    breakers = Breakers()
    died(breakers, 3)
    breakers.check("other", model="other", now_s=0.0)

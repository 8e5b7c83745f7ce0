"""Quotas on a clock that the test turns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.access.keyring import Key
from blazar_gateway.access.quotas import MINUTE_S, Quotas, Standing, utc_day
from blazar_routing.errors import DailyQuotaSpent, RateLimited, TooManyConcurrent

NOON = 1_767_355_200.0
"""2026-01-02 12:00:00 UTC."""


def key(**limits: int) -> Key:
    return Key("k", "hash", **limits)  # type: ignore[arg-type]  # a table of keywords


def test_the_concurrency_gate_holds_until_left() -> None:
    quotas = Quotas()
    quotas.enter(key(max_concurrent=1))
    with pytest.raises(TooManyConcurrent, match="max_concurrent"):
        quotas.enter(key(max_concurrent=1))
    quotas.leave(key(max_concurrent=1))
    quotas.enter(key(max_concurrent=1))
    assert quotas.running("k") == 1
    assert quotas.running("other") == 0


def test_requests_per_minute_slide() -> None:
    quotas = Quotas()
    for second in (0, 1):
        quotas.charge_request(key(rpm=2), now=NOON + second)
    with pytest.raises(RateLimited) as caught:
        quotas.charge_request(key(rpm=2), now=NOON + 10)
    assert (caught.value.unit, caught.value.retry_after_s) == ("requests", 50)
    quotas.charge_request(key(rpm=2), now=NOON + MINUTE_S)
    with pytest.raises(RateLimited):
        quotas.charge_request(key(rpm=2), now=NOON + MINUTE_S)


def test_tokens_per_minute_refuse_the_next_request() -> None:
    quotas = Quotas()
    quotas.charge_request(key(tpm=100), now=NOON)
    quotas.charge_tokens(key(tpm=100), 150, now=NOON + 5)
    with pytest.raises(RateLimited) as caught:
        quotas.charge_request(key(tpm=100), now=NOON + 6)
    assert (caught.value.unit, caught.value.retry_after_s) == ("tokens", 59)
    quotas.charge_request(key(tpm=100), now=NOON + 65)


def test_a_day_ends_at_midnight_utc() -> None:
    quotas = Quotas()
    quotas.charge_tokens(key(daily_tokens=100), 100, now=NOON)
    with pytest.raises(DailyQuotaSpent) as caught:
        quotas.charge_request(key(daily_tokens=100), now=NOON)
    assert caught.value.retry_after_s == 12 * 3600
    quotas.charge_request(key(daily_tokens=100), now=NOON + 12 * 3600)


def test_a_restart_takes_up_the_day() -> None:
    quotas = Quotas()
    quotas.restore_day({"k": 100}, now=NOON)
    with pytest.raises(DailyQuotaSpent):
        quotas.charge_request(key(daily_tokens=100), now=NOON)


@pytest.mark.parametrize("limit", ["rpm", "tpm"])
def test_a_limit_of_zero_refuses_everything(limit: str) -> None:
    with pytest.raises(RateLimited):
        Quotas().charge_request(key(**{limit: 0}), now=NOON)


def test_zero_concurrent_refuses_everything() -> None:
    with pytest.raises(TooManyConcurrent):
        Quotas().enter(key(max_concurrent=0))


def test_a_refused_request_is_not_counted() -> None:
    quotas = Quotas()
    quotas.charge_request(key(rpm=1), now=NOON)
    for second in range(1, 60):
        with pytest.raises(RateLimited):
            quotas.charge_request(key(rpm=1), now=NOON + second)
    quotas.charge_request(key(rpm=1), now=NOON + 60)


def test_standings_for_the_headers() -> None:
    quotas = Quotas()
    limited = key(rpm=10, tpm=1000)
    assert quotas.standing(limited, now=NOON) == {"requests": Standing(10, 10, 0), "tokens": Standing(1000, 1000, 0)}
    quotas.charge_request(limited, now=NOON)
    quotas.charge_tokens(limited, 1500, now=NOON + 20)
    assert quotas.standing(limited, now=NOON + 30) == {"requests": Standing(10, 9, 30), "tokens": Standing(1000, 0, 50)}
    assert quotas.standing(key(), now=NOON) == {}


def test_records_of_removed_keys_go_once_nothing_runs() -> None:
    quotas = Quotas()
    quotas.enter(key())
    quotas.forget_others(frozenset())
    assert len(quotas) == 1
    quotas.leave(key())
    quotas.forget_others(frozenset())
    assert len(quotas) == 0


def test_days_are_utc() -> None:
    assert utc_day(NOON) == "2026-01-02"


@given(st.lists(st.tuples(st.floats(0, 30), st.booleans()), max_size=60), st.integers(1, 5))
def test_no_minute_ever_holds_more_requests_than_allowed(steps: list[tuple[float, bool]], rpm: int) -> None:
    quotas, now = Quotas(), NOON
    granted: list[float] = []
    for gap, _ in steps:
        now += gap
        try:
            quotas.charge_request(key(rpm=rpm), now=now)
        except RateLimited as refused:
            # The advice is good: at the time it names, a request passes.
            probe = now + (refused.retry_after_s or 0)
            assert sum(1 for at in granted if int(at) > int(probe) - MINUTE_S) < rpm
        else:
            granted.append(now)
        assert sum(1 for at in granted if at > now - (MINUTE_S - 1)) <= rpm

"""What is counted, and what is handed out to be written."""

import pytest

from blazar_gateway.access import ledger as ledger_module
from blazar_gateway.access.ledger import Ledger
from blazar_store.types import UsageRow

NOON = 1_801_224_000.0
DAY = "2027-01-29"
NEXT = NOON + 86_400


def test_requests_and_tokens_add_up_by_key_and_model() -> None:
    ledger = Ledger()
    ledger.add_request("alice", "m", now=NOON)
    ledger.add_tokens("alice", "m", prompt=5, completion=7, now=NOON)
    ledger.add_request("alice", "m", now=NOON)
    ledger.add_tokens("alice", "other", prompt=1, completion=0, now=NOON)
    ledger.add_request("", "m", now=NOON)
    assert ledger.rows(DAY) == (
        UsageRow(DAY, "", "m", 1, 0, 0),
        UsageRow(DAY, "alice", "m", 2, 5, 7),
        UsageRow(DAY, "alice", "other", 0, 1, 0),
    )
    assert ledger.tokens_by_key(DAY) == {"alice": 13, "": 0}


def test_only_days_that_changed_are_written_and_always_whole() -> None:
    ledger = Ledger()
    ledger.restore([UsageRow(DAY, "alice", "m", 1, 2, 3)])
    assert ledger.take_unsaved(now=NOON) == {}
    ledger.add_request("bob", "m", now=NOON)
    assert ledger.take_unsaved(now=NOON) == {
        DAY: (UsageRow(DAY, "alice", "m", 1, 2, 3), UsageRow(DAY, "bob", "m", 1, 0, 0))
    }
    assert ledger.take_unsaved(now=NOON) == {}


def test_a_day_that_is_over_is_written_once_more_and_forgotten() -> None:
    ledger = Ledger()
    ledger.add_request("alice", "m", now=NOON)
    ledger.add_request("alice", "m", now=NEXT)
    assert list(ledger.take_unsaved(now=NEXT)) == [DAY, "2027-01-30"]
    assert ledger.rows(DAY) == ()
    assert len(ledger.rows("2027-01-30")) == 1


def test_what_could_not_be_written_is_written_next_time() -> None:
    ledger = Ledger()
    ledger.add_request("alice", "m", now=NOON)
    taken = ledger.take_unsaved(now=NEXT)
    ledger.put_back(taken)
    assert ledger.take_unsaved(now=NEXT) == taken
    ledger.add_request("alice", "m", now=NEXT)
    taken = ledger.take_unsaved(now=NEXT)
    ledger.add_request("alice", "m", now=NEXT)
    ledger.put_back(taken)
    assert ledger.take_unsaved(now=NEXT)["2027-01-30"][0].requests == 2


def test_pairs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "MOST_PAIRS", 3)
    ledger = Ledger()
    for number in range(10):
        ledger.add_request("alice", f"m{number}", now=NOON)
    rows = ledger.rows(DAY)
    assert len(rows) == 4
    assert sum(row.requests for row in rows) == 10
    assert next(row for row in rows if row.model == "").requests == 7

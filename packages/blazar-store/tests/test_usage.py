import contextlib
import sqlite3

import pytest

from blazar_store.errors import StoreError
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.types import UsageRow


def row(day: str, key: str, tokens: int, *, model: str = "m") -> UsageRow:
    return UsageRow(day, key, model, 1, tokens, tokens)


def test_a_day_is_written_absolutely_and_as_often_as_one_likes(layout: Layout) -> None:
    with Store(layout) as store:
        store.save_usage("2027-01-31", [row("2027-01-31", "alice", 5), row("2027-01-31", "bob", 7)])
        store.save_usage("2027-01-31", [row("2027-01-31", "alice", 9)])
        store.save_usage("2027-01-31", [row("2027-01-31", "alice", 9)])
        assert store.usage_since("2027-01-01") == (row("2027-01-31", "alice", 9), row("2027-01-31", "bob", 7))


def test_newest_day_first_and_older_ones_left_out(layout: Layout) -> None:
    with Store(layout) as store:
        for day in ("2027-01-30", "2027-02-01", "2027-01-31"):
            store.save_usage(day, [row(day, "alice", 1), row(day, "alice", 2, model="a")])
        rows = store.usage_since("2027-01-31")
    assert [(found.day, found.model) for found in rows] == [
        ("2027-02-01", "a"),
        ("2027-02-01", "m"),
        ("2027-01-31", "a"),
        ("2027-01-31", "m"),
    ]


def test_a_day_is_written_whole_or_not_at_all(layout: Layout) -> None:
    broken = UsageRow("2027-01-31", "bob", "m", None, 1, 1)  # type: ignore[arg-type]  # what SQLite has to refuse
    with Store(layout) as store:
        with pytest.raises(StoreError):
            store.save_usage("2027-01-31", [row("2027-01-31", "alice", 5), broken])
        assert store.usage_since("") == ()


def test_a_database_of_version_4_gets_the_table(layout: Layout) -> None:
    with Store(layout):
        pass
    with contextlib.closing(sqlite3.connect(layout.database)) as connection:
        connection.executescript(
            "DROP TABLE key_usage; ALTER TABLE models DROP COLUMN overlay; PRAGMA user_version = 4"
        )
    with Store(layout) as store:
        store.save_usage("2027-01-31", [row("2027-01-31", "alice", 5)])
        assert len(store.usage_since("2027-01-31")) == 1
    assert layout.database.with_name("blazar.db.v4.bak").exists()

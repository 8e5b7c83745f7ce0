"""Where models were moved to outlives the daemon, and ends with the model."""

import sqlite3
from pathlib import Path

from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.testing import make_model
from blazar_store.types import LanePin

PIN = LanePin("m", "digest", "fork", ("local", "b1"), 1_800_000_000)


def test_what_is_pinned_is_read_again_and_the_later_word_holds(tmp_path: Path) -> None:
    with Store(Layout(tmp_path)) as store:
        store.add_model(make_model("m"))
        store.pin_lane(PIN)
        store.pin_lane(LanePin("m", "digest", "other", (), 1_800_000_001))
        store.pin_lane(PIN)
    with Store(Layout(tmp_path)) as store:
        assert store.list_lane_pins() == store.snapshot().pins == (PIN,)


def test_forgetting_tells_whether_there_was_anything(tmp_path: Path) -> None:
    with Store(Layout(tmp_path)) as store:
        store.pin_lane(PIN)
        assert store.forget_lane("m")
        assert not store.forget_lane("m")
        assert store.list_lane_pins() == ()


def test_a_pin_ends_with_its_model(tmp_path: Path) -> None:
    with Store(Layout(tmp_path)) as store:
        store.add_model(make_model("m"))
        store.pin_lane(PIN)
        store.remove_model("m")
        assert store.list_lane_pins() == ()


def test_a_database_of_version_7_learns_it(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    with Store(layout) as store:
        store.add_model(make_model("m"))
    connection = sqlite3.connect(layout.database)
    connection.executescript("DROP TRIGGER lane_pins_end; DROP TABLE lane_pins; PRAGMA user_version = 7")
    connection.close()
    with Store(layout) as store:
        store.pin_lane(PIN)
        assert [row.name for row in store.list_models()] == ["m"]
        store.remove_model("m")
        assert store.list_lane_pins() == ()


def test_builds_that_cannot_be_read_are_none(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    with Store(layout) as store:
        store.pin_lane(PIN)
    connection = sqlite3.connect(layout.database)
    with connection:
        connection.execute("UPDATE lane_pins SET refused_by = '{'")
    connection.close()
    with Store(layout) as store:
        assert store.list_lane_pins()[0].refused_by == ()

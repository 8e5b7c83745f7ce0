"""A model's move to another engine is written down once, is in force at once, and is told."""

from pathlib import Path

import pytest

from blazar_cli.catalogue import LiveCatalogue
from blazar_cli.serving.lane_memory import LaneMemory
from blazar_cli.testing import User
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.testing import make_model
from blazar_store.types import LanePin
from blazar_store.writer import StoreThread

PIN = LanePin("m", make_model("m").digest, "fork", ("b1", "local"), 1_800_000_000)


def test_a_move_is_written_down_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    layout = Layout(tmp_path)
    with StoreThread(layout) as store:
        store.submit(lambda it: it.add_model(make_model("m"))).result()
        catalogue = LiveCatalogue(store.submit(Store.snapshot).result())
        memory = LaneMemory(store, catalogue, now=lambda: 1_800_000_000.5)
        for _ in range(2):
            memory.remember("m", "fork", frozenset({"local", "b1"}))
        memory.remember("gone", "fork", frozenset({"local"}))
        assert catalogue.find_pin("m") == PIN
    assert [record.message for record in caplog.records] == [
        "engine fork serves m from now on, whose architecture is unknown to b1 and local; "
        "`blazar models unpin m` forgets it"
    ]
    with Store(layout) as after:
        assert after.list_lane_pins() == (PIN,)
        catalogue.replace(after.snapshot())
        assert catalogue.pins() == (PIN,)


def test_a_move_is_shown_and_can_be_forgotten(user: User) -> None:
    user.add_model("m")
    (row,) = user.json("models", "list")
    with Store(Layout(user.data_dir)) as store:
        store.pin_lane(LanePin("m", row["digest"], "fork", ("local",), 1_800_000_000))
    assert "fork, since local did not know its architecture" in user.ok("models", "show", "m")
    assert user.json("models", "show", "m")["lane_pin"]["refused_by"] == ["local"]
    assert user.ok("models", "unpin", "m:latest") == (
        "Forgot which engine serves 'm': its next load tries them from the first.\n"
    )
    assert user.ok("models", "unpin", "m") == "'m' was not moved to any engine: nothing to forget.\n"
    assert user.json("models", "unpin", "m") == {"model": "m", "forgotten": False}
    assert "by routing" in user.ok("models", "show", "m")

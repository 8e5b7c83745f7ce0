from pathlib import Path

import pytest

from blazar_cli.serving.usage_flush import UsageFlush
from blazar_gateway.access.ledger import Ledger
from blazar_store.errors import DiskFull
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.types import UsageRow
from blazar_store.writer import StoreThread

NOON = 1_801_224_000.0
DAY = "2027-01-29"


async def test_usage_goes_on_where_the_last_run_left_it(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    for run in (1, 2, 3):
        with StoreThread(layout) as store:
            ledger = Ledger()
            flush = UsageFlush(ledger, store, now=lambda: NOON)
            await flush.restore()
            ledger.add_request("alice", "m", now=NOON)
            await flush.flush()
            # Lost with a daemon that is killed here: what came after the last flush, nothing else.
            ledger.add_request("alice", "m", now=NOON)
        with Store(layout) as rows:
            assert rows.usage_since(DAY) == (UsageRow(DAY, "alice", "m", run, 0, 0),)


async def test_a_failed_write_is_done_again_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise DiskFull(path=tmp_path)

    with StoreThread(Layout(tmp_path)) as store:
        ledger = Ledger()
        flush = UsageFlush(ledger, store, now=lambda: NOON)
        ledger.add_request("alice", "m", now=NOON)
        with monkeypatch.context() as patch:
            patch.setattr(Store, "save_usage", full)
            await flush.flush()
            await flush.flush()
        assert len(caplog.records) == 1
        await flush.flush()
    with Store(Layout(tmp_path)) as rows:
        assert len(rows.usage_since(DAY)) == 1

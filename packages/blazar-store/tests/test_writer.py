import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest

from blazar_store.errors import DatabaseDamaged, NameTaken, StoreError
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.testing import make_engine, make_model
from blazar_store.writer import StoreThread


def names(store: Store) -> list[str]:
    return [row.name for row in store.list_models()]


async def test_work_is_awaited_on_the_loop_and_done_in_the_thread(layout: Layout) -> None:
    with StoreThread(layout) as thread:
        await asyncio.wrap_future(thread.submit(lambda store: store.add_model(make_model())))
        assert await asyncio.wrap_future(thread.submit(names)) == ["model"]
        where = await asyncio.wrap_future(thread.submit(lambda _store: threading.current_thread().name))
    assert where.startswith("blazar-store")


async def test_loop_runs_on_while_the_store_works(layout: Layout) -> None:
    release = threading.Event()
    with StoreThread(layout) as thread:
        future = asyncio.wrap_future(thread.submit(lambda _store: release.wait(30)))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not future.done()
        release.set()
        assert await future


def test_work_is_done_in_the_order_it_came(layout: Layout) -> None:
    seen: list[int] = []

    def note(number: int, _store: Store) -> None:
        seen.append(number)

    with StoreThread(layout) as thread:
        for number in range(50):
            thread.submit(partial(note, number))
    assert seen == list(range(50))


def test_closing_finishes_what_was_submitted(layout: Layout) -> None:
    def add(number: int, store: Store) -> None:
        store.add_model(make_model(f"m{number}"))

    thread = StoreThread(layout)
    for number in range(20):
        thread.submit(partial(add, number))
    thread.close()
    thread.close()
    with Store(layout) as store:
        assert len(store.list_models()) == 20
    with pytest.raises(RuntimeError):
        thread.submit(names)


def test_error_of_the_work_reaches_whoever_asked_and_nobody_else(layout: Layout) -> None:
    with StoreThread(layout) as thread:
        thread.submit(lambda store: store.add_model(make_model())).result()
        with pytest.raises(NameTaken):
            thread.submit(lambda store: store.add_model(make_model())).result()
        assert thread.submit(names).result() == ["model"]


async def test_cancelled_wait_does_not_break_off_a_write(layout: Layout) -> None:
    begun, release = threading.Event(), threading.Event()

    def slowly(store: Store) -> None:
        begun.set()
        release.wait(30)
        store.add_model(make_model())

    with StoreThread(layout) as thread:
        future = asyncio.wrap_future(thread.submit(slowly))
        await asyncio.to_thread(begun.wait, 30)
        future.cancel()
        release.set()
        assert await asyncio.wrap_future(thread.submit(names)) == ["model"]


def test_store_that_cannot_be_opened_says_so_and_leaves_no_thread(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.database.write_bytes(b"x" * 4096)
    before = threading.active_count()
    with pytest.raises(DatabaseDamaged):
        StoreThread(layout)
    assert threading.active_count() == before


def test_changes_of_other_processes_are_noticed(layout: Layout) -> None:
    with StoreThread(layout) as thread, Store(layout) as other:
        before = thread.submit(lambda store: store.data_version()).result()
        other.add_engine(make_engine())
        assert thread.submit(lambda store: store.data_version()).result() != before
        snapshot = thread.submit(lambda store: store.snapshot()).result()
    assert [row.tag for row in snapshot.engines] == ["b1"]
    assert snapshot.models == ()


def test_every_refusal_is_a_store_error() -> None:
    assert issubclass(NameTaken, StoreError)

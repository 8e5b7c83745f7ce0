import contextlib
import os
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import cast

import pytest

import blazar_store.database
from blazar_store.database import Database
from blazar_store.errors import (
    DatabaseBusy,
    DatabaseDamaged,
    DatabaseTooNew,
    DiskFull,
    NotWritable,
    StorageFailed,
)
from blazar_store.layout import Layout
from blazar_store.schema import SCHEMA_VERSION
from blazar_store.store import Store
from blazar_store.testing import make_model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "blazar.db"


def test_new_database_has_the_newest_schema_in_a_private_directory(path: Path) -> None:
    with Database(path) as database:
        assert database.schema_version() == SCHEMA_VERSION == 9
        assert database.rows("PRAGMA journal_mode")[0][0] == "wal"
        assert database.rows("PRAGMA foreign_keys")[0][0] == 1
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_closing_twice_is_fine(path: Path) -> None:
    database = Database(path)
    database.close()
    database.close()


def test_block_that_fails_leaves_nothing_behind(path: Path) -> None:
    with Database(path) as database:

        def fail_half_way() -> None:
            with database.write():
                database.rows("INSERT INTO engines (tag, server_path, installed_at) VALUES ('x', 'y', 1)")
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail_half_way()
        assert database.rows("SELECT * FROM engines") == []
        with database.write():
            pass


def test_reads_of_a_block_see_one_moment(layout: Layout) -> None:
    with Store(layout) as one, Store(layout) as other, one._database.read():
        assert one.list_models() == ()
        other.add_model(make_model())
        assert one.list_models() == ()
    with Store(layout) as one:
        assert len(one.list_models()) == 1


def test_data_version_tells_the_changes_of_others(layout: Layout) -> None:
    with Store(layout) as one, Store(layout) as other:
        before = one.data_version()
        one.add_model(make_model("mine"))
        assert one.data_version() == before
        other.add_model(make_model("theirs"))
        after = one.data_version()
        assert after != before
        assert one.data_version() == after


def test_newer_version_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE future (x)")
        connection.execute("PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(DatabaseTooNew, match="schema version 99, and this Blazar knows versions up to 9"):
        Database(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["blazar.db"]  # noqa: PTH208  # names are enough


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"this is not a database, but a text of some length" * 40, id="another file"),
        pytest.param(b"SQLite format 3\x00" + b"\xff" * 4096, id="broken header"),
    ],
)
def test_what_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(DatabaseDamaged, match="move the file aside"):
        Database(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_refused_and_left_alone(path: Path) -> None:
    path.parent.mkdir()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (x)")
    with pytest.raises(DatabaseDamaged, match="none of Blazar's tables"):
        Database(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
        assert connection.execute("PRAGMA user_version").fetchone() == (0,)


def test_damage_inside_is_found_by_a_check_and_by_use(layout: Layout) -> None:
    with Store(layout) as store:
        for number in range(200):
            store.add_model(make_model(f"model-{number}"))
        store.check()
    raw = bytearray(layout.database.read_bytes())
    raw[4096 * 3 : -4096] = os.urandom(len(raw) - 4096 * 4)
    layout.database.write_bytes(raw)
    with Store(layout) as store:
        with pytest.raises(DatabaseDamaged):
            store.check()
        with pytest.raises(DatabaseDamaged):
            store.list_models()


def test_damaged_database_names_the_copy_there_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"x" * 4096)
    (path.parent / "blazar.db.v3.bak").write_bytes(b"")
    with pytest.raises(DatabaseDamaged, match=r"copy the backup .*blazar\.db\.v3\.bak over it"):
        Database(path)


def test_empty_file_is_a_new_database(path: Path) -> None:
    path.parent.mkdir()
    path.touch()
    with Database(path) as database:
        assert database.schema_version() == SCHEMA_VERSION


def test_writer_that_does_not_let_go_is_a_typed_error(layout: Layout) -> None:
    with Store(layout) as holder, Store(layout, busy_timeout_s=0.05) as store, holder._database.write():
        with pytest.raises(DatabaseBusy, match="stayed locked"):
            store.add_model(make_model())
        assert store.list_models() == ()


def test_writers_wait_for_each_other(layout: Layout) -> None:
    with Store(layout) as holder, Store(layout) as store:
        begun = threading.Event()

        def write_late() -> None:
            with holder._database.write():
                begun.set()
                holder._database.connection.execute("UPDATE models SET quant = 'late'")

        thread = threading.Thread(target=write_late)
        thread.start()
        assert begun.wait(30)
        store.add_model(make_model())
        thread.join()
    with Store(layout) as store:
        assert len(store.list_models()) == 1


class BusyTwiceConnection:
    """Says twice that it is busy, as SQLite does without waiting when two processes create a database at once."""

    def __init__(self) -> None:
        self.calls = 0

    def execute(self, _sql: str) -> None:
        self.calls += 1
        if self.calls <= 2:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error


@pytest.mark.parametrize(("patience_s", "calls"), [(30.0, 3), (0.0, 1)], ids=["waits", "gives up"])
def test_creation_by_two_at_once_is_waited_for(path: Path, patience_s: float, calls: int) -> None:
    with Database(path) as database:
        real, fake = database.connection, BusyTwiceConnection()
        database._busy_timeout_s = patience_s
        database.connection = cast("sqlite3.Connection", fake)
        try:
            if calls == 1:
                with pytest.raises(sqlite3.OperationalError):
                    database._switch_to_wal()
            else:
                database._switch_to_wal()
        finally:
            database.connection = real
        assert fake.calls == calls


def test_full_disk_is_a_typed_error_and_loses_nothing(layout: Layout) -> None:
    with Store(layout) as store:
        store.add_model(make_model("kept"))
        pages = store._database.rows("PRAGMA page_count")[0][0]
        store._database.rows(f"PRAGMA max_page_count = {pages}")
        added: list[str] = []

        def fill() -> None:
            for number in range(1000):
                store.add_model(make_model(f"more-{number}", digest="x" * 900))
                added.append(f"more-{number}")

        with pytest.raises(DiskFull, match="Free some space"):
            fill()
        assert {row.name for row in store.list_models()} == {"kept", *added}
        store.check()
        store.remove_model("kept")
        store._database.rows("PRAGMA max_page_count = 100000")
        store.add_model(make_model("again"))


def test_unnamed_io_error_on_a_full_disk_counts_as_full(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Database(path) as database:
        assert isinstance(database._typed(sqlite3.OperationalError("disk I/O error")), StorageFailed)
        monkeypatch.setattr(blazar_store.database, "_no_room", lambda _directory: True)
        assert isinstance(database._typed(sqlite3.OperationalError("disk I/O error")), DiskFull)


def test_read_only_directory_is_a_typed_error(
    public_dir: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    public_dir.chmod(0o555)
    with unprivileged(), pytest.raises(NotWritable, match="Correct the permissions"):
        Database(public_dir / "blazar.db")
    with unprivileged(), pytest.raises(NotWritable):
        Database(public_dir / "data" / "blazar.db")


def test_database_made_read_only_is_a_typed_error_and_loses_nothing(
    public_dir: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    public_dir.chmod(0o777)
    layout = Layout(public_dir / "data")
    with unprivileged():
        with Store(layout) as store:
            store.add_model(make_model())
        for path in (layout.database, layout.data_dir):
            path.chmod(0o555)
        with pytest.raises(NotWritable), Store(layout) as store:
            store.add_model(make_model("more"))
        layout.data_dir.chmod(0o755)
        layout.database.chmod(0o644)
        with Store(layout) as store:
            assert len(store.list_models()) == 1

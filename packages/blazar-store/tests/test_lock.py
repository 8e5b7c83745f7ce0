import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import blazar_store.lock
from blazar_store.errors import DataDirInUse, NotWritable
from blazar_store.flock import try_lock, unlock
from blazar_store.layout import Layout
from blazar_store.lock import LockOwner, acquire_lock, read_owner


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blazar_store.lock, "_PATIENCE_S", 0.0)


@pytest.mark.usefixtures("impatient")
def test_second_owner_is_refused_and_told_by_whom(layout: Layout) -> None:
    started_at = time.mktime((2026, 3, 1, 14, 5, 9, 0, 0, -1))
    with acquire_lock(layout, pid=4711, started_at=started_at) as lock:
        lock.announce("http://127.0.0.1:11435")
        with pytest.raises(DataDirInUse) as caught:
            acquire_lock(layout, pid=1, started_at=0.0)
    assert (caught.value.pid, caught.value.address) == (4711, "http://127.0.0.1:11435")
    assert caught.value.since == "2026-03-01 14:05:09"
    for word in ("4711", "2026-03-01 14:05:09", "http://127.0.0.1:11435", str(layout.data_dir)):
        assert word in str(caught.value)


def test_owner_can_be_asked_for_without_disturbing_it(layout: Layout) -> None:
    assert read_owner(layout) is None
    with acquire_lock(layout, pid=4711, started_at=5.0, address="http://a:1"):
        assert read_owner(layout) == LockOwner(pid=4711, started_at=5.0, address="http://a:1")
        assert read_owner(layout) is not None
    assert read_owner(layout) is None


def test_nobody_owns_a_directory_that_does_not_exist(tmp_path: Path) -> None:
    assert read_owner(Layout(tmp_path / "nowhere")) is None
    assert list(tmp_path.iterdir()) == []


def test_directory_can_be_owned_again_after_release(layout: Layout) -> None:
    lock = acquire_lock(layout, pid=1, started_at=1.0)
    lock.release()
    lock.release()
    lock.announce("http://late")
    with acquire_lock(layout, pid=2, started_at=2.0):
        owner = read_owner(layout)
        assert owner is not None
        assert (owner.pid, owner.address) == (2, None)


def test_stale_file_of_a_dead_daemon_blocks_nobody(layout: Layout) -> None:
    layout.lock_file.write_text('{"pid": 1, "started_at": 1.0, "address": "http://old"}')
    assert read_owner(layout) is None
    with acquire_lock(layout, pid=2, started_at=2.0):
        owner = read_owner(layout)
        assert owner is not None
        assert owner.pid == 2


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"pid": "x", "started_at": null}', b"\xff\xfe"], ids=lambda text: repr(text)
)
def test_half_written_owner_is_somebody_unknown(layout: Layout, content: bytes) -> None:
    with acquire_lock(layout, pid=2, started_at=2.0):
        layout.lock_file.write_bytes(content)
        assert read_owner(layout) == LockOwner(pid=None, started_at=None, address=None)
        with pytest.raises(DataDirInUse, match="another Blazar daemon"):
            acquire_lock(layout, pid=1, started_at=1.0)


def test_somebody_who_only_asks_does_not_make_a_start_fail(layout: Layout) -> None:
    layout.lock_file.touch()
    handle = os.open(layout.lock_file, os.O_RDWR)
    assert try_lock(handle, shared=True)
    done = threading.Event()
    result: list[int | None] = []

    def start() -> None:
        with acquire_lock(layout, pid=7, started_at=1.0) as lock:
            result.append(lock.owner.pid)
        done.set()

    thread = threading.Thread(target=start)
    thread.start()
    unlock(handle)
    os.close(handle)
    thread.join(30)
    assert done.is_set()
    assert result == [7]


def test_directories_are_locked_apart(tmp_path: Path) -> None:
    one, two = Layout(tmp_path / "one"), Layout(tmp_path / "two")
    with acquire_lock(one, pid=1, started_at=1.0), acquire_lock(two, pid=2, started_at=2.0):
        owner = read_owner(two)
        assert owner is not None
        assert owner.pid == 2


def test_forbidden_lock_file_is_a_typed_error(
    public_dir: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    layout = Layout(public_dir / "data")
    layout.prepare()
    layout.data_dir.chmod(0o755)
    layout.run_dir.chmod(0o555)
    with unprivileged(), pytest.raises(NotWritable):
        acquire_lock(layout, pid=1, started_at=1.0)

"""Responses on disk: whose they are, how long and how many are kept, and what a damaged file does."""

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from blazar_store.responses import ResponseFile, ResponseThread
from blazar_store.types import KeptResponse


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def kept(response_id: str, text: str = "hi", *, previous: str | None = None) -> KeptResponse:
    item = {"type": "message", "id": f"msg_{response_id}", "content": text}
    answer = {"type": "message", "id": f"out_{response_id}", "content": text}
    return KeptResponse(response_id, 1, {"id": response_id, "output": [answer]}, [item], previous)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: Path, clock: Clock) -> Iterator[ResponseFile]:
    with closing(ResponseFile(tmp_path / "responses.db", cap_bytes=2000, retention_s=60, now=clock)) as opened:
        yield opened


def test_what_was_put_is_got_by_its_owner_alone(file: ResponseFile) -> None:
    file.put("a", kept("resp_1", "grüße 😀", previous="resp_0"))
    assert file.get("a", "resp_1") == kept("resp_1", "grüße 😀", previous="resp_0")
    assert file.get("b", "resp_1") is None
    assert file.find_item("b", "msg_resp_1") is None
    assert not file.delete("b", "resp_1")
    file.put("b", kept("resp_1", "mine"))
    assert file.get("a", "resp_1") == kept("resp_1", "grüße 😀", previous="resp_0")


def test_items_in_and_out_are_found_by_their_ids(file: ResponseFile) -> None:
    file.put("a", kept("resp_1"))
    assert file.find_item("a", "msg_resp_1") == kept("resp_1").items[0]
    assert file.find_item("a", "out_resp_1") is not None
    assert file.find_item("a", "msg_none") is None


def test_a_second_put_takes_the_place_of_the_first(file: ResponseFile) -> None:
    file.put("a", kept("resp_1", "old"))
    file.put("a", kept("resp_2"))
    file.put("a", kept("resp_1", "new"))
    assert file.get("a", "resp_1") == kept("resp_1", "new")
    assert file.list("a") == ("resp_1", "resp_2")


def test_what_is_deleted_takes_its_items_along(file: ResponseFile) -> None:
    file.put("a", kept("resp_1"))
    assert file.delete("a", "resp_1")
    assert not file.delete("a", "resp_1")
    assert file.find_item("a", "msg_resp_1") is None


def test_the_oldest_go_when_room_is_needed(file: ResponseFile) -> None:
    for number in range(30):
        file.put("a", kept(f"resp_{number}", "x" * 100))
    ids = file.list("a")
    assert ids == tuple(f"resp_{number}" for number in range(29, 29 - len(ids), -1))
    assert 1 < len(ids) < 10


def test_one_that_is_larger_than_everything_is_not_kept_and_pushes_nothing_out(file: ResponseFile) -> None:
    file.put("a", kept("resp_1"))
    file.put("a", kept("resp_2", "x" * 3000))
    assert file.list("a") == ("resp_1",)


def test_what_is_too_old_is_gone(file: ResponseFile, clock: Clock) -> None:
    file.put("a", kept("resp_1"))
    clock.now += 59
    assert file.get("a", "resp_1") is not None
    clock.now += 1
    assert file.get("a", "resp_1") is None
    assert file.list("a") == ()
    assert file.find_item("a", "msg_resp_1") is None
    assert not file.delete("a", "resp_1")


def test_it_survives_a_restart_and_only_its_user_can_read_it(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "data" / "responses.db"
    for _ in range(2):
        with closing(ResponseFile(path, cap_bytes=2000, retention_s=60, now=clock)) as opened:
            opened.put("a", kept(f"resp_{len(opened.list('a'))}"))
    with closing(ResponseFile(path, cap_bytes=2000, retention_s=60, now=clock)) as opened:
        assert opened.list("a") == ("resp_1", "resp_0")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("kind", ["garbage", "foreign"])
def test_a_file_that_is_not_ours_is_replaced(tmp_path: Path, clock: Clock, kind: str) -> None:
    path = tmp_path / "responses.db"
    if kind == "garbage":
        path.write_bytes(b"not a database at all" * 100)
    else:
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE responses (x)")
    with closing(ResponseFile(path, cap_bytes=2000, retention_s=60, now=clock)) as opened:
        opened.put("a", kept("resp_1"))
        assert opened.list("a") == ("resp_1",)


async def test_the_thread_does_the_same_without_blocking(tmp_path: Path, clock: Clock) -> None:
    thread = ResponseThread(tmp_path / "responses.db", cap_bytes=2000, retention_s=60, now=clock)
    try:
        await thread.put("a", kept("resp_1"))
        assert await thread.get("a", "resp_1") == kept("resp_1")
        assert list(await thread.list("a")) == ["resp_1"]
        assert await thread.find_item("a", "msg_resp_1") is not None
        assert await thread.delete("a", "resp_1")
    finally:
        thread.close()
        thread.close()


async def test_no_room_on_disk_is_an_error_of_the_system(tmp_path: Path, clock: Clock) -> None:
    path = tmp_path / "responses.db"
    thread = ResponseThread(path, cap_bytes=2_000_000, retention_s=60, now=clock)
    try:
        thread._file._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(OSError, match=r"responses\.db: .* full"):
            await thread.put("a", kept("resp_1", "x" * 400_000))
        assert await thread.get("a", "resp_1") is None
    finally:
        thread.close()

import asyncio
import logging
import re
import sys
from pathlib import Path

import pytest

from blazar_cli.serving.daemon_log import (
    ROTATE_BYTES,
    LogFollower,
    daemon_logging,
    last_lines,
    rotate_log,
    stream_lines,
)
from blazar_cli.serving.loop_lag import LoopLag


def test_records_go_to_the_file_and_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "daemon.log"
    with daemon_logging(path, level="info"):
        logging.getLogger("blazar.test").info("hello %s", "there")
        logging.getLogger("blazar.test").debug("too small")
        logging.getLogger("aiohttp.access").info("not ours")
    line = path.read_text()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d INFO blazar\.test: hello there\n", line)
    assert capsys.readouterr().err == line


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device that is always full")
def test_a_full_disk_is_said_once_and_not_with_tracebacks(capsys: pytest.CaptureFixture[str]) -> None:
    with daemon_logging(Path("/dev/full"), level="info"):
        for number in range(3):
            logging.getLogger("blazar.test").info("line %d", number)
    err = capsys.readouterr().err
    assert err.count("/dev/full cannot be written, and may lack lines until it can: ") == 1
    assert "Traceback" not in err
    assert [err.count(f"line {number}\n") for number in range(3)] == [1, 1, 1]


def test_a_launcher_that_already_writes_into_the_file_gets_each_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "daemon.log"
    with path.open("a") as stderr:
        monkeypatch.setattr(sys, "stderr", stderr)
        with daemon_logging(path, level="info"):
            logging.getLogger("blazar.test").info("once")
    assert path.read_text().count("once") == 1


@pytest.mark.parametrize(
    ("size", "rotated"),
    [pytest.param(ROTATE_BYTES, False, id="at the limit"), pytest.param(ROTATE_BYTES + 1, True, id="over it")],
)
def test_a_log_over_ten_mebibytes_is_set_aside(tmp_path: Path, size: int, rotated: bool) -> None:
    path = tmp_path / "daemon.log"
    with path.open("wb") as file:
        file.truncate(size)
    (tmp_path / "daemon.log.1").write_text("older")
    rotate_log(path)
    assert path.exists() is not rotated
    assert (tmp_path / "daemon.log.1").stat().st_size == (size if rotated else len("older"))


def test_rotating_before_the_first_start_is_fine(tmp_path: Path) -> None:
    rotate_log(tmp_path / "daemon.log")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "lines", "wanted"),
    [
        pytest.param(b"a\nb\nc\n", 2, b"b\nc\n", id="the last two"),
        pytest.param(b"a\nb\nc", 2, b"b\nc", id="the last line unfinished"),
        pytest.param(b"a\nb\n", 9, b"a\nb\n", id="fewer than asked for"),
        pytest.param(b"a\nb\n", 0, b"", id="none"),
        pytest.param(b"", 5, b"", id="empty file"),
        pytest.param(b"x" * 200_000 + b"\nend\n", 1, b"end\n", id="behind a very long line"),
        pytest.param(b"x" * 200_000 + b"\nend\n", 2, b"x" * 200_000 + b"\nend\n", id="a line over several blocks"),
    ],
)
def test_the_tail_of_a_log_is_whole_lines(tmp_path: Path, content: bytes, lines: int, wanted: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(content)
    assert last_lines(path, lines) == wanted


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert last_lines(tmp_path / "log", 5) == b""


def test_following_sees_what_is_added_across_a_rotation_and_a_late_start(tmp_path: Path) -> None:
    path = tmp_path / "log"
    late = LogFollower(path)
    assert late.read() == b""
    path.write_bytes(b"one\n")
    assert late.read() == b"one\n"
    follower = LogFollower(path)
    with path.open("ab") as file:
        file.write(b"two\n")
    assert follower.read() == b"two\n"
    path.rename(tmp_path / "log.1")
    path.write_bytes(b"fresh\n")
    assert follower.read() == b"fresh\n"
    path.write_bytes(b"cut\n")
    assert follower.read() == b"cut\n"


async def test_a_followed_stream_ends_when_the_daemon_stops(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\n")
    stopping = asyncio.Event()
    stream = stream_lines(path, lines=1, follow=True, until=stopping)
    assert await anext(stream) == b"two\n"
    with path.open("ab") as file:
        file.write(b"three\n")
    assert await anext(stream) == b"three\n"
    stopping.set()
    assert [block async for block in stream] == []


async def test_a_stream_that_is_not_followed_ends_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"one\n")
    assert [block async for block in stream_lines(path, lines=9, follow=False, until=asyncio.Event())] == [b"one\n"]


def test_loop_lag_is_told_in_milliseconds_and_never_negative() -> None:
    lag = LoopLag()
    assert lag.as_plain() == {"mean_ms": 0.0, "worst_ms": 0.0, "worst_ever_ms": 0.0}
    for late_s in (-0.001, 0.001, 0.005):
        lag.note(late_s)
    assert lag.as_plain() == {"mean_ms": 2.0, "worst_ms": 5.0, "worst_ever_ms": 5.0}

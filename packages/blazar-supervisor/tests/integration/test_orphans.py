"""A daemon that was killed: what the next one finds, ends, and leaves alone."""

import asyncio
import dataclasses
import os
import sys
from pathlib import Path

import psutil
import pytest

from blazar_supervisor.children.identity import start_mark
from blazar_supervisor.children.orphans import collect_orphans
from blazar_supervisor.children.pidfile import PidRecord, read_pidfile, write_pidfile
from blazar_supervisor.testing.house import House


async def _other_program() -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)


async def test_children_of_a_killed_daemon_are_ended_and_their_files_go(house: House) -> None:
    house.model("one")
    house.model("two")
    (await house.lend("one")).release()
    (await house.lend("two")).release()
    pids = {view.pid for view in house.host.residents()}
    stale = house.layout.run_dir / "three.apikey"
    stale.write_text("old")
    # Another host over the same directory is what the next daemon is.
    collected = await house.open().start()
    assert {found.pid for found in collected} == pids
    assert all(found.ended for found in collected)
    assert not any(psutil.pid_exists(pid) and house.processes() for pid in pids if pid is not None)
    assert house.run_files() == set()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"start_mark": "boot:1"}, id="another-start"),
        pytest.param({"argv": ("llama-server", "-m", "other.gguf")}, id="another-command"),
        pytest.param({"data_dir": "/elsewhere"}, id="another-daemon"),
    ],
)
async def test_a_process_that_differs_in_anything_is_left_alone(house: House, change: dict[str, object]) -> None:
    house.model()
    (await house.lend()).release()
    path = house.layout.child_pidfile("tiny")
    record = read_pidfile(path)
    assert record is not None
    write_pidfile(path, dataclasses.replace(record, **change))  # type: ignore[arg-type]  # by name
    assert await house.open().start() == ()
    assert psutil.Process(record.pid).is_running()
    assert house.state() == "ready"
    assert not path.exists()


async def test_a_number_that_somebody_else_has_now_is_not_killed(house: House) -> None:
    process = await _other_program()
    record = PidRecord(
        child="tiny",
        pid=process.pid,
        start_mark="boot:1",
        argv=(sys.executable, "-c", "input()"),
        data_dir=str(house.layout.data_dir),
        engine="local",
    )
    write_pidfile(house.layout.child_pidfile("tiny"), record)
    assert await house.open().start() == ()
    assert process.returncode is None
    process.terminate()
    await process.wait()


async def test_an_unreadable_pidfile_is_removed(house: House) -> None:
    house.layout.child_pidfile("tiny").write_text("{")
    (found,) = await asyncio.to_thread(collect_orphans, house.layout)
    assert (found.pid, found.ended) == (None, False)
    assert house.run_files() == set()


async def test_two_daemons_with_two_directories_do_not_touch_each_other(house: House, tmp_path: Path) -> None:
    house.model()
    (await house.lend()).release()
    other = House(tmp_path / "other", engine=house.engines[0].server_path, write_model=lambda *_: None)
    assert await other.host.start() == ()
    assert house.state() == "ready"
    await other.host.close()


def test_a_start_mark_tells_processes_apart() -> None:
    assert start_mark(os.getpid()) == start_mark(os.getpid())
    assert start_mark(os.getpid()) != start_mark(1)
    assert start_mark(2**22 + 1) is None

"""Several processes on one data directory, and processes that are killed in the middle of a write."""

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blazar_store.config_file import ConfigFile
from blazar_store.layout import Layout
from blazar_store.lock import acquire_lock, read_owner
from blazar_store.settings import load_settings
from blazar_store.store import Store

PRELUDE = """
import sys, os
from pathlib import Path
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.testing import make_engine, make_model
layout, me = Layout(Path(sys.argv[1])), sys.argv[2]
def say(word): print(word, flush=True)
say("ready"); sys.stdin.readline()
"""

ADD_AND_SWITCH = """
with Store(layout) as store:
    store.add_engine(make_engine(me))
    for number in range(15):
        store.add_model(make_model(f"{me}-{number}"))
        store.set_active_engine(me)
        say(number)
say("done")
"""

OPEN_ONLY = """
with Store(layout) as store:
    say(len(store.list_engines()))
"""

WRITE_FOREVER = """
from blazar_store.config_file import ConfigFile
config = ConfigFile(layout.data_dir / "config.toml")
with Store(layout) as store:
    for tag in ("b1", "b2"):
        store.add_engine(make_engine(tag))
    number = 0
    while True:
        store.add_model(make_model(f"m{number}", digest="x" * 3000))
        store.set_active_engine(("b1", "b2")[number % 2])
        config.set(("models", f"m{number % 40}", "slots"), number % 200 + 1)
        say(number)
        number += 1
"""

HOLD_THE_LOCK = """
from blazar_store.lock import acquire_lock
lock = acquire_lock(layout, pid=os.getpid(), started_at=1.0, address="http://127.0.0.1:1")
say("locked"); sys.stdin.readline()
"""


@contextmanager
def process(script: str, data_dir: Path, me: str) -> Iterator[subprocess.Popen[str]]:
    """Run a script in a process of its own, as far as its first line; killed at the end whatever happens."""
    child = subprocess.Popen(
        [sys.executable, "-c", PRELUDE + script, str(data_dir), me],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def go(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def lines(child: subprocess.Popen[str]) -> Iterator[str]:
    assert child.stdout is not None
    return (line.strip() for line in child.stdout)


def test_two_processes_write_at_the_same_time_and_lose_nothing(layout: Layout) -> None:
    with process(ADD_AND_SWITCH, layout.data_dir, "b1") as one, process(ADD_AND_SWITCH, layout.data_dir, "b2") as two:
        go(one)
        go(two)
        assert [list(lines(child))[-1] for child in (one, two)] == ["done", "done"]
    with Store(layout) as store:
        assert {row.name for row in store.list_models()} == {f"b{n}-{m}" for n in (1, 2) for m in range(15)}
        assert [row.active for row in store.list_engines()].count(True) == 1
        store.check()


def test_processes_may_create_the_database_at_the_same_time(tmp_path: Path) -> None:
    with (
        process(OPEN_ONLY, tmp_path / "data", "a") as one,
        process(OPEN_ONLY, tmp_path / "data", "b") as two,
        process(OPEN_ONLY, tmp_path / "data", "c") as three,
    ):
        for child in (one, two, three):
            go(child)
        assert [list(lines(child)) for child in (one, two, three)] == [["0"]] * 3


def test_processes_may_migrate_the_database_at_the_same_time(layout: Layout) -> None:
    import sqlite3

    script = Path(__file__).parents[1].joinpath("v3.sql").read_text()
    connection = sqlite3.connect(layout.database)
    connection.executescript(script.replace("@DATA@", str(layout.data_dir)))
    connection.close()
    with process(OPEN_ONLY, layout.data_dir, "a") as one, process(OPEN_ONLY, layout.data_dir, "b") as two:
        for child in (one, two):
            go(child)
        assert [list(lines(child)) for child in (one, two)] == [["3"]] * 2


@pytest.mark.parametrize("rounds", [1, 8, 30])
def test_process_killed_while_writing_leaves_whole_files(layout: Layout, rounds: int) -> None:
    with process(WRITE_FOREVER, layout.data_dir, "writer") as child:
        go(child)
        for number in lines(child):
            if int(number) == rounds:
                os.kill(child.pid, signal.SIGKILL)
                break
        child.wait(30)
    with Store(layout) as store:
        store.check()
        kept = {row.name for row in store.list_models()}
        assert {f"m{number}" for number in range(rounds + 1)} <= kept
        assert [row.active for row in store.list_engines()].count(True) == 1
    config = ConfigFile(layout.data_dir / "config.toml")
    for path in (config.path, config.backup):
        tomllib.loads(path.read_text())
        assert len(load_settings(path).models) >= min(rounds, 40)
    config.set(("port",), 1)  # the dead process's lock is gone with it


def test_lock_dies_with_its_process(layout: Layout) -> None:
    with process(HOLD_THE_LOCK, layout.data_dir, "daemon") as child:
        go(child)
        assert next(lines(child)) == "locked"
        owner = read_owner(layout)
        assert owner is not None
        assert (owner.pid, owner.address) == (child.pid, "http://127.0.0.1:1")
        os.kill(child.pid, signal.SIGKILL)
        child.wait(30)
        assert read_owner(layout) is None
        with acquire_lock(layout, pid=os.getpid(), started_at=2.0) as lock:
            assert lock.owner.pid == os.getpid()

"""One process each: spawn, output, signals, end; and what surrounds it."""

import asyncio
import os
import signal
import stat
import sys
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_supervisor.children.apikey import mint_apikey, write_apikey
from blazar_supervisor.children.endpoint import find_free_port, tcp_endpoint, unix_endpoint
from blazar_supervisor.children.environment import LIBRARY_PATH, child_environment
from blazar_supervisor.children.identity import cpu_seconds, is_running
from blazar_supervisor.children.logfile import ROTATE_BYTES, ChildLog
from blazar_supervisor.children.pidfile import PidRecord, read_pidfile, write_pidfile
from blazar_supervisor.children.process import EngineProcess
from blazar_supervisor.testing.house import until

ENV = {"PATH": os.environ["PATH"]}


class Printed:
    """A log in memory, and the lines that were handed on."""

    def __init__(self, path: Path | None = None) -> None:
        self.lines: list[str] = []
        self.partials: list[str] = []
        self.log = ChildLog(path, on_line=self.lines.append, on_partial=self.partials.append)

    async def says(self, line: str) -> None:
        await until(lambda: line in self.lines, f"it prints {line}")


async def spawn(code: str, printed: Printed) -> EngineProcess:
    return await EngineProcess.spawn([sys.executable, "-c", code], env=ENV, log=printed.log)


async def test_both_outputs_reach_the_log_and_the_exit_is_known() -> None:
    printed = Printed()
    process = await spawn("import sys; print('out'); print('err', file=sys.stderr); sys.exit(7)", printed)
    await asyncio.wait_for(process.exited.wait(), 60)
    assert sorted(printed.lines) == ["err", "out"]
    assert process.returncode == 7


async def test_it_leads_a_session_of_its_own() -> None:
    printed = Printed()
    process = await spawn("import os; print(os.getsid(0) == os.getpgid(0) == os.getpid())", printed)
    await asyncio.wait_for(process.exited.wait(), 60)
    assert printed.lines == ["True"]


async def test_a_polite_one_ends_by_sigterm() -> None:
    printed = Printed()
    process = await spawn("import time; print('up', flush=True); time.sleep(600)", printed)
    await printed.says("up")
    await process.stop(grace_s=60)
    assert process.returncode == -signal.SIGTERM


async def test_one_that_ignores_sigterm_is_killed_with_its_children_and_reaped() -> None:
    printed = Printed()
    code = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "helper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
        "print(helper.pid, flush=True); time.sleep(600)"
    )
    process = await spawn(code, printed)
    await until(lambda: printed.lines, "it prints its helper's number")
    helper = int(printed.lines[0])
    await process.stop(grace_s=0.2)
    assert process.returncode == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)
    await until(lambda: not is_running(helper), "the helper ends")


async def test_a_helper_that_holds_the_output_open_does_not_hold_up_the_exit() -> None:
    printed = Printed()
    code = (
        "import subprocess, sys;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)"
    )
    before = {child.pid for child in psutil.Process().children()}
    process = await spawn(code, printed)
    await asyncio.wait_for(process.exited.wait(), 60)
    assert process.returncode == 0
    for left in psutil.process_iter(["cmdline"]):
        if left.info["cmdline"] == [sys.executable, "-c", "import time; time.sleep(600)"] and left.pid not in before:
            left.kill()


async def test_last_words_are_read_although_the_loop_was_held_up_when_it_died(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timers of a loop that was held up run before it reads what has come of the pipe meanwhile."""
    printed = Printed()
    known_at_the_end: list[str] = []
    monkeypatch.setattr(printed.log, "end", lambda: known_at_the_end.extend(printed.lines))
    process = EngineProcess(printed.log)
    process.process_exited()
    asyncio.get_running_loop().call_later(1.2, process.pipe_data_received, 1, b"why it died\n")
    time.sleep(2.5)  # noqa: ASYNC251 - to hold the loop up
    await asyncio.wait_for(process.exited.wait(), 60)
    assert known_at_the_end == ["why it died"]


async def test_everything_that_a_dying_process_wrote_is_read_before_its_end_is_told() -> None:
    printed = Printed()
    code = "import os; [os.write(2, b'%07d\\n' % n) for n in range(20000)]; os.write(2, b'why it died'); os._exit(1)"
    process = await spawn(code, printed)
    await asyncio.wait_for(process.exited.wait(), 60)
    assert printed.lines[-1] == "why it died"
    assert len(printed.lines) == 20001


async def test_one_that_left_the_group_and_goes_on_writing_holds_the_end_up_for_a_while_only() -> None:
    printed = Printed()
    code = (
        "import os, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    for _ in range(600):\n"
        "        os.write(1, b'noise\\n'); time.sleep(0.1)\n"
        "    os._exit(0)\n"
        "print(flush=True)\n"
    )
    process = await spawn(code, printed)
    await asyncio.wait_for(process.exited.wait(), 50)
    assert "noise" in printed.lines


async def test_hurry_cuts_the_grace_short() -> None:
    printed = Printed()
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
    )
    process = await spawn(code, printed)
    await printed.says("up")
    hurry = asyncio.Event()
    stopping = asyncio.ensure_future(process.stop(grace_s=600, hurry=hurry))
    await asyncio.sleep(0)
    hurry.set()
    await asyncio.wait_for(stopping, 60)
    assert process.returncode == -signal.SIGKILL


async def test_a_program_that_is_not_there_raises() -> None:
    with pytest.raises(FileNotFoundError):
        await EngineProcess.spawn(["/nonexistent/engine"], env=ENV, log=Printed().log)


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_lines_are_the_same_wherever_the_output_is_cut(pieces: list[bytes]) -> None:
    whole, cut = Printed(), Printed()
    whole.log.feed(b"".join(pieces))
    whole.log.end()
    for piece in pieces:
        cut.log.feed(piece)
    cut.log.end()
    assert cut.lines == whole.lines
    assert cut.log.tail() == whole.log.tail()


def test_progress_without_a_line_break_is_handed_on() -> None:
    printed = Printed()
    printed.log.feed(b"up\n..")
    printed.log.feed(b"..")
    assert printed.partials == ["..", "...."]
    assert printed.log.tail() == ("up", "....")


async def test_a_log_file_keeps_everything_and_is_rotated(tmp_path: Path) -> None:
    path = tmp_path / "child.log"
    path.write_bytes(b"x" * ROTATE_BYTES)
    printed = Printed(path)
    printed.log.headline("starting")
    printed.log.feed(b"one\ntwo\n")
    await printed.log.flushed()
    assert path.read_text().endswith("starting\none\ntwo\n")
    assert (tmp_path / "child.log.1").stat().st_size == ROTATE_BYTES


async def test_a_log_that_cannot_be_written_takes_nothing_down(tmp_path: Path) -> None:
    printed = Printed(tmp_path / "missing" / "child.log")
    printed.log.feed(b"one\n")
    await printed.log.flushed()
    assert printed.lines == ["one"]


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        pytest.param("PATH", True, id="path"),
        pytest.param("HOME", True, id="home"),
        pytest.param("LC_ALL", True, id="locale"),
        pytest.param("CUDA_VISIBLE_DEVICES", True, id="cuda"),
        pytest.param("HSA_OVERRIDE_GFX_VERSION", True, id="rocm"),
        pytest.param("GGML_VK_VISIBLE_DEVICES", True, id="vulkan"),
        pytest.param("LLAMA_ARG_CTX_SIZE", False, id="llama-arg"),
        pytest.param("LLAMA_API_KEY", False, id="llama-key"),
        pytest.param("LLAMA_CACHE", False, id="llama-cache"),
        pytest.param("HF_TOKEN", False, id="hub-token"),
        pytest.param("AIP_PREDICT_ROUTE", False, id="vertex"),
        pytest.param("BLAZAR_KEYS", False, id="our-keys"),
        pytest.param("OPENAI_API_KEY", False, id="other-keys"),
        pytest.param("LD_PRELOAD", False, id="preload"),
    ],
)
def test_only_what_is_known_to_be_needed_is_passed_on(name: str, passes: bool) -> None:
    assert (name in child_environment({name: "1"}, library_dir=Path("/engine"))) is passes


def test_the_engines_folder_comes_before_other_libraries() -> None:
    environment = child_environment({LIBRARY_PATH: "/other"}, library_dir=Path("/engine"))
    assert environment[LIBRARY_PATH] == "/engine:/other"


def test_a_secret_is_fresh_private_and_replaces_an_old_one(tmp_path: Path) -> None:
    path = tmp_path / "m.apikey"
    path.write_text("old")
    path.chmod(0o644)
    secret = mint_apikey()
    assert secret != mint_apikey()
    write_apikey(path, secret)
    assert path.read_text() == f"{secret}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"pid": 1}',
        b'{"child":"m","pid":1,"start_mark":"","argv":[],"data_dir":""}',
        b"\xff",
    ],
)
def test_a_pidfile_that_is_none_is_read_as_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.pid"
    path.write_bytes(content)
    assert read_pidfile(path) is None


def test_a_pidfile_comes_back_as_it_was(tmp_path: Path) -> None:
    record = PidRecord("m", 4242, "boot:17", ("engine", "-m", "ä b"), "/data", "b1", "/run/m.sock")
    write_pidfile(tmp_path / "m.pid", record)
    assert read_pidfile(tmp_path / "m.pid") == record


def test_endpoints() -> None:
    assert tcp_endpoint(find_free_port()).base_url.startswith("http://127.0.0.1:")
    assert unix_endpoint(Path("/run/m.sock")).socket_path == Path("/run/m.sock")


def test_processor_time_is_that_of_the_process() -> None:
    used = cpu_seconds(os.getpid())
    assert used is not None
    assert used <= time.process_time() + 1.0
    assert cpu_seconds(2**22 + 1) is None

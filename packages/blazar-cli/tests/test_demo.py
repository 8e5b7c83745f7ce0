"""The demo's story on a stand-in engine; tests-e2e tells it on the real one."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from blazar_cli.demo import story
from blazar_cli.demo.choices import DEMO_MODELS
from blazar_cli.demo.daemon_process import DaemonDidNotStart, running_daemon, stop_process
from blazar_cli.demo.engine_check import check_engine, explain_start_failure
from blazar_cli.errors import ExtraMissing, PartUnavailable
from blazar_cli.testing import User
from blazar_store.layout import Layout
from blazar_stubs import install_stub, write_stub_model


def left_behind() -> list[str]:
    return [path.name for path in Path(os.environ["TMPDIR"]).iterdir()]


class StandIns:
    """What ``ensure_part`` returns, by name; the model's name is either of the two."""

    def __init__(self, engine: Path, model: Path) -> None:
        self.paths = {"engine": engine, "smollm2": model, "gemma": model}

    def __call__(self, name: str, progress: object, *, index_url: str | None) -> Path:
        del progress
        assert index_url == "http://mirror.example/simple"
        return self.paths[name]


@pytest.fixture
def short_tmp() -> Iterator[str]:
    """A temporary directory of one's own with a short path: a unix socket's may have a hundred bytes."""
    with tempfile.TemporaryDirectory(prefix="bz-", dir="/tmp") as directory:
        yield directory


@pytest.fixture
def staged(user: User, tmp_path: Path, short_tmp: str, monkeypatch: pytest.MonkeyPatch) -> User:
    """Stand-ins take the real parts' places."""
    engine = install_stub(tmp_path / "engine")
    model = write_stub_model(tmp_path / "model.gguf").path
    monkeypatch.setattr(story, "ensure_part", StandIns(engine, model))
    monkeypatch.setattr(story, "part_sha256", str.upper)
    monkeypatch.setenv("TMPDIR", short_tmp)
    user.config_file.write_text('[sources]\npython_index = "http://mirror.example/simple"\n')
    monkeypatch.setattr("tempfile.tempdir", None)
    return user


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


@pytest.mark.parametrize("model", list(DEMO_MODELS))
def test_the_demo_answers_measures_and_leaves_nothing(staged: User, model: str) -> None:
    shown = staged.ok("demo", "--model", model, "--prompt", "Say something.")
    assert ">>> Say something." in shown
    for line in ("engine commit", f"model sha256     {model.upper()}", "load time", "first token", "tokens/s"):
        assert line in shown
    assert left_behind() == []
    assert children() == []


def test_a_question_that_fails_is_told_in_the_daemons_words_and_leaves_nothing(
    staged: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = install_stub(tmp_path / "engine")
    broken = write_stub_model(tmp_path / "broken.gguf", script={"crash": {"exit_code": 1, "text": "out of luck"}}).path
    monkeypatch.setattr(story, "ensure_part", StandIns(engine, broken))
    ended = staged.blazar("demo")
    assert ended.status == 7
    assert "failed to load" in ended.err
    assert left_behind() == []
    assert children() == []


def test_without_the_openai_package_nothing_is_fetched(staged: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", {}.get)
    monkeypatch.setattr(story, "ensure_part", None)
    ended = staged.blazar("demo")
    assert ended.status == ExtraMissing.exit_code
    assert "blazar-cli[demo]" in ended.err


def test_windows_is_refused_in_a_sentence(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "win32")
    ended = user.blazar("demo")
    assert ended.status == 14
    assert "WSL 2" in ended.err


def test_a_daemon_that_does_not_start_is_quoted(user: User) -> None:
    user.config_file.write_text("nonsense = 1\n")
    layout = Layout(user.data_dir)
    layout.prepare()
    with pytest.raises(DaemonDidNotStart, match="nonsense"), running_daemon(layout, user.config_file):
        raise AssertionError("it must not come up")


def test_a_daemon_that_ignores_signals_is_killed_with_all_it_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blazar_cli.demo.daemon_process._STOP_S", 0.5)
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "print('up', flush=True)\n"
        "time.sleep(600)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
    started = psutil.Process(process.pid).children()
    stop_process(process)
    assert process.returncode == -9
    assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in started)


def test_the_engine_check_reads_what_an_engine_says_of_itself(tmp_path: Path) -> None:
    version = check_engine(install_stub(tmp_path))
    assert len(version.commit) >= 7


@pytest.mark.parametrize(
    ("said", "words"),
    [
        pytest.param(
            "llama-server: error while loading shared libraries: libgomp.so.1: cannot open shared object file: "
            "No such file or directory",
            "libgomp1",
            id="OpenMP's library",
        ),
        pytest.param("libfoo.so.7: cannot open shared object file", "the one that holds libfoo.so.7", id="any other"),
        pytest.param("/lib/libc.so.6: version `GLIBC_2.38' not found", "GLIBC_2.38", id="an older C library"),
        pytest.param("something\nelse", "It said:\n  something\n  else", id="anything else is quoted"),
    ],
)
def test_what_keeps_the_engine_from_starting_is_named(said: str, words: str) -> None:
    assert words in str(explain_start_failure(Path("/x/llama-server"), said))


def test_an_engine_that_is_no_program_is_told(tmp_path: Path) -> None:
    path = tmp_path / "llama-server"
    path.write_text("#!/nowhere\n")
    path.chmod(0o755)
    with pytest.raises(PartUnavailable, match="does not start"):
        check_engine(path)

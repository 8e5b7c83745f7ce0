"""Engines and models are registered where they are, with the daemon down, and what cannot work is refused at once."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from blazar_cli.exit_codes import ExitCode
from blazar_stubs import install_stub
from e2e.home import Home
from e2e.served import add_stub_model


@pytest.mark.promise("engine:add-local")
def test_a_binary_is_asked_what_it_is_and_becomes_the_active_engine(home: Home) -> None:
    engine = install_stub(home.root / "my build", variant="one-gpu")
    home.ok("engine", "add-local", engine)
    (row,) = home.json("engine", "list")
    assert row["kind"] == "llamacpp"
    assert row["active"] is True
    assert row["local"] is True
    assert row["server_path"] == str(engine)
    assert row["version"]
    assert row["commit"]


@pytest.mark.promise("engine:add-local")
def test_a_relative_path_is_kept_as_an_absolute_one(home: Home) -> None:
    install_stub(home.root / "engine")
    home.ok("engine", "add-local", "engine/llama-server")
    (row,) = home.json("engine", "list")
    assert row["server_path"] == str(home.root / "engine/llama-server")


def write_another_program(path: Path) -> None:
    path.write_text("#!/bin/sh\necho something else\n", encoding="utf-8")
    path.chmod(0o755)


def write_a_program_that_fails(path: Path) -> None:
    path.write_text("#!/bin/sh\necho error while loading shared libraries: libgomp.so.1 >&2\nexit 127\n", "utf-8")
    path.chmod(0o755)


def write_a_text(path: Path) -> None:
    path.write_text("hello", encoding="utf-8")


@pytest.mark.promise("engine:refuse")
@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(write_another_program, "", id="another program"),
        pytest.param(write_a_program_that_fails, "libgomp", id="a library is missing"),
        pytest.param(write_a_text, "", id="a text"),
        pytest.param(Path.mkdir, "", id="a directory without one"),
        pytest.param(None, "", id="nothing there"),
    ],
)
def test_what_is_not_an_engine_is_refused_with_the_reason(
    home: Home, make: Callable[[Path], None] | None, reason: str
) -> None:
    path = home.root / "candidate"
    if make is not None:
        make(path)
    done = home.blazar("engine", "add-local", path)
    assert done.returncode != 0
    assert str(path) in done.stderr
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert home.json("engine", "list") == []


@pytest.mark.promise("engine:always-one-active")
def test_while_there_are_engines_one_is_active_whatever_fails(home: Home) -> None:
    for number in (1, 2):
        home.ok("engine", "add-local", install_stub(home.root / f"engine{number}"))
    assert home.blazar("engine", "use", "no-such-tag").returncode == ExitCode.NOT_FOUND
    rows = home.json("engine", "list")
    assert [row["active"] for row in rows].count(True) == 1
    home.ok("engine", "rm", next(row["tag"] for row in rows if row["active"]))
    assert [row["active"] for row in home.json("engine", "list")] == [True]


@pytest.mark.promise("model:in-place")
def test_weights_stay_where_they_are_untouched(home: Home) -> None:
    model = add_stub_model(home, "m")
    before = (model.path.stat(), hashlib.sha256(model.path.read_bytes()).hexdigest())
    shown = home.json("models", "show", "m")
    assert shown["path"] == str(model.path)
    home.ok("models", "rm", "m")
    after = (model.path.stat(), hashlib.sha256(model.path.read_bytes()).hexdigest())
    assert (before[0].st_ino, before[0].st_mtime_ns, before[1]) == (after[0].st_ino, after[0].st_mtime_ns, after[1])
    assert home.json("models", "list") == []
    assert not any(file.suffix == ".gguf" for file in home.data_dir.rglob("*"))


@pytest.mark.promise("model:facts")
def test_a_model_is_shown_with_what_its_file_says(home: Home) -> None:
    add_stub_model(home, "m", context_length=8192, tools=True)
    (row,) = home.json("models", "list")
    assert row["name"] == "m"
    assert row["format"] == "gguf"
    assert row["arch"] == "llama"
    assert row["ctx_train"] == 8192
    assert "tools" in row["capabilities"]


@pytest.mark.promise("model:refuse")
@pytest.mark.parametrize(
    ("content", "status"),
    [
        pytest.param(b"", ExitCode.MODEL_UNREADABLE, id="empty"),
        pytest.param(b"hello, world, this is text", ExitCode.MODEL_UNREADABLE, id="text"),
        pytest.param(b"GGUF" + b"\x03\0\0\0" + b"\xff" * 16, ExitCode.MODEL_UNREADABLE, id="nonsense counts"),
    ],
)
def test_a_file_that_is_no_model_is_refused_when_it_is_added(home: Home, content: bytes, status: ExitCode) -> None:
    path = home.root / "broken.gguf"
    path.write_bytes(content)
    done = home.blazar("models", "add", path)
    assert done.returncode == status, done.stderr
    assert str(path) in done.stderr
    assert "Traceback" not in done.stderr
    assert home.json("models", "list") == []


@pytest.mark.promise("model:refuse")
def test_a_truncated_model_is_refused_when_it_is_added(home: Home) -> None:
    whole = add_stub_model(home, "whole").path
    cut = home.root / "cut.gguf"
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    done = home.blazar("models", "add", cut)
    assert done.returncode == ExitCode.MODEL_UNREADABLE
    assert [row["name"] for row in home.json("models", "list")] == ["whole"]


@pytest.mark.promise("model:names")
@pytest.mark.parametrize("name", ["m#2", "#", "m@vision", "../m", ""])
def test_names_that_mean_something_to_the_daemon_are_refused(home: Home, name: str) -> None:
    path = add_stub_model(home, "m").path
    done = home.blazar("models", "add", path, "--name", name)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert [row["name"] for row in home.json("models", "list")] == ["m"]


@pytest.mark.promise("model:names")
def test_a_name_that_is_taken_is_refused(home: Home) -> None:
    add_stub_model(home, "m")
    other = add_stub_model(home, "other").path
    done = home.blazar("models", "add", other, "--name", "M")
    assert done.returncode != 0
    assert "m" in done.stderr

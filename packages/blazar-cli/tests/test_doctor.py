import os
from pathlib import Path
from typing import Any

import pytest

from blazar_cli.testing import User
from blazar_stubs import install_stub


def findings(user: User) -> dict[str, dict[str, Any]]:
    import json

    ended = user.blazar("doctor", "--json")
    found = {finding["what"]: finding for finding in json.loads(ended.out)}
    assert ended.status == (1 if any(finding["verdict"] == "bad" for finding in found.values()) else 0)
    return found


def verdicts(user: User) -> dict[str, str]:
    return {what: finding["verdict"] for what, finding in findings(user).items()}


@pytest.fixture
def settled(user: User, tmp_path: Path) -> User:
    """A user with an engine, a model, and a port that is free."""
    user.config_file.write_text("port = 0\n")
    user.ok("engine", "add-local", install_stub(tmp_path / "engine"))
    user.add_model("m")
    return user


def test_a_fresh_user_is_told_what_to_do_first(user: User) -> None:
    user.config_file.write_text("port = 0\n")
    found = findings(user)
    assert "blazar engine add-local" in found["engine"]["advice"]
    assert "blazar models add" in found["model"]["advice"]
    assert "blazar serve" in found["daemon"]["advice"]


def test_a_model_that_became_a_pipe_is_not_said_to_be_gone(settled: User) -> None:
    path = settled.root / "m.gguf"
    path.unlink()
    os.mkfifo(path)
    assert findings(settled)["model m"]["found"] == f"its file is a pipe, a socket or a device now, not a file: {path}"
    path.unlink()
    assert "its file is gone" in findings(settled)["model m"]["found"]


def test_when_all_is_well_nothing_is_bad(settled: User) -> None:
    found = verdicts(settled)
    assert "bad" not in found.values()
    assert found["engine local"] == found["model m"] == found["configuration"] == found["database"] == "ok"


def test_each_thing_that_is_wrong_has_a_line_and_an_advice(settled: User, tmp_path: Path) -> None:
    (tmp_path / "m.gguf").unlink()
    (tmp_path / "engine" / "llama-server").unlink()
    settled.config_file.write_text("nonsense = 1\n")
    (settled.data_dir / "run").mkdir(exist_ok=True)
    (settled.data_dir / "run").chmod(0o755)
    found = findings(settled)
    bad = {what for what, finding in found.items() if finding["verdict"] == "bad"}
    assert bad >= {"engine local", "model m", "configuration", "run directory"}
    assert all(found[what]["advice"] for what in bad)


def test_a_model_that_changed_and_an_engine_that_fails_are_noticed(settled: User, tmp_path: Path) -> None:
    with (tmp_path / "m.gguf").open("ab") as file:
        file.write(b"more")
    engine = tmp_path / "engine" / "llama-server"
    engine.write_text("#!/bin/sh\necho libgomp.so.1: cannot open shared object file >&2\nexit 127\n")
    found = findings(settled)
    assert found["model m"]["verdict"] == "warn"
    assert "libgomp.so.1" in found["engine local"]["found"]


def test_the_lines_are_for_people_too(settled: User) -> None:
    shown = settled.blazar("doctor").out
    assert "ok    model m:" in shown

"""Commands that work with the daemon down."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from blazar_cli.testing import User
from blazar_store.layout import Layout
from blazar_stubs import install_stub, write_stub_model
from blazar_supervisor.children.identity import start_mark
from blazar_supervisor.children.pidfile import PidRecord, write_pidfile


def test_models_are_added_listed_shown_and_forgotten(user: User) -> None:
    path = user.add_model("m", context_length=8192)
    (row,) = user.json("models", "list")
    assert (row["name"], row["path"], row["ctx_train"]) == ("m", str(path), 8192)
    assert user.json("models", "show", "m:latest") == row
    assert "8192 tokens" in user.ok("models", "show", "M")
    assert "NAME" in user.ok("models", "ls")
    assert str(path) in user.ok("models", "rm", "m")
    assert user.json("models", "list") == []
    assert path.is_file()


def test_adding_a_file_twice_is_no_mistake_and_keeps_its_row(user: User) -> None:
    path = user.add_model("m")
    first = user.json("models", "list")
    assert "Registered already" in user.ok("models", "add", path)
    assert user.json("models", "list") == first
    user.ok("models", "add", path, "--name", "again")
    assert {row["name"] for row in user.json("models", "list")} == {"m", "again"}


def test_adding_a_file_that_has_changed_renews_its_row(user: User) -> None:
    user.add_model("m", context_length=4096)
    path = user.root / "m.gguf"
    write_stub_model(path, context_length=8192)
    user.ok("models", "add", path)
    (row,) = user.json("models", "list")
    assert (row["name"], row["ctx_train"]) == ("m", 8192)


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        pytest.param(("models", "show", "nam"), 6, "not found. Did you mean 'name'?", id="show"),
        pytest.param(("models", "rm", "name", "n"), 6, "not found", id="rm"),
        pytest.param(("logs", "n"), 6, "not found", id="logs"),
        pytest.param(("models", "add", "nowhere.gguf"), 6, "nowhere.gguf", id="add"),
        pytest.param(("engine", "use", "b1"), 6, "blazar engine list", id="engine use"),
        pytest.param(("engine", "rm", "b1"), 6, "blazar engine list", id="engine rm"),
        pytest.param(("engine", "add-local", "nowhere"), 7, "there is no such file", id="engine add-local"),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    user: User, arguments: tuple[str, ...], status: int, words: str
) -> None:
    user.add_model("name")
    ended = user.blazar(*arguments)
    assert ended.status == status
    assert words in ended.err
    assert [row["name"] for row in user.json("models", "list")] == ["name"]


@pytest.mark.parametrize("name", ["a#2", "x@vision", "../x", ""])
def test_reserved_names_are_refused(user: User, name: str) -> None:
    path = user.add_model("m")
    assert user.blazar("models", "add", path, "--name", name).status == 2


def test_empty_listings_say_what_to_do(user: User) -> None:
    assert "blazar models add" in user.blazar("models", "list").err
    assert "blazar engine add-local" in user.blazar("engine", "list").err
    assert user.json("models", "list") == user.json("engine", "list") == []


def test_engines_are_registered_chosen_and_forgotten(user: User, tmp_path: Path) -> None:
    for name in ("one", "two"):
        binary = install_stub(tmp_path / name)
        assert "Registered engine 'local" in user.ok("engine", "add-local", binary)
    assert [row["tag"] for row in user.json("engine", "list") if row["active"]] == ["local"]
    assert "blazar engine use local-2" in user.ok("engine", "add-local", tmp_path / "two" / "llama-server")
    user.ok("engine", "use", "local-2")
    assert [row["tag"] for row in user.json("engine", "list") if row["active"]] == ["local-2"]
    assert "'local' now" in user.ok("engine", "rm", "local-2")
    (row,) = user.json("engine", "list")
    assert row["active"] is True
    assert Path(row["server_path"]).is_file()


def test_an_engine_with_processes_left_by_a_killed_daemon_is_not_removed(user: User) -> None:
    user.ok("engine", "add-local", install_stub(user.root / "engine"))
    layout = Layout(user.data_dir)
    layout.prepare()
    mark = start_mark(os.getpid())
    assert mark is not None
    record = PidRecord("m", os.getpid(), mark, ("llama-server",), str(user.data_dir), "local")
    write_pidfile(layout.child_pidfile("m"), record)
    ended = user.blazar("engine", "rm", "local")
    assert ended.status == 1
    assert f"pid {os.getpid()}" in ended.err
    write_pidfile(layout.child_pidfile("m"), replace(record, start_mark="another process of that number"))
    user.ok("engine", "rm", "local")


def test_the_shell_completes_commands_and_models(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.add_model("mistral")
    user.add_model("qwen")
    monkeypatch.setenv("_BLAZAR_COMPLETE", "bash_complete")
    for words, wanted in (("blazar mod", "models"), ("blazar run mi", "mistral"), ("blazar models sh", "show")):
        monkeypatch.setenv("COMP_WORDS", words)
        monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
        assert user.blazar().out.split() == [f"plain,{wanted}"]


def test_fit_answers_for_a_row_and_for_a_file_that_is_none(user: User) -> None:
    path = user.add_model("m", context_length=4096)
    by_name, by_path = user.json("fit", "m"), user.json("fit", path)
    assert by_name["ctx_tokens"] == by_path["ctx_tokens"] <= 4096
    assert user.json("fit", "m", "--ctx", "1024")["ctx_tokens"] == 1024
    assert "It fits." in user.ok("fit", "m")
    assert user.blazar("fit", "nowhere").status == 6
    assert user.blazar("fit", "http://127.0.0.1:1/m.gguf").status == 12


def test_fit_reckons_with_what_is_asked_for(user: User) -> None:
    user.add_model("m", context_length=4096)
    wide = user.json("fit", "m", "--ctx", "4096", "--gpu", "8")
    narrow = user.json("fit", "m", "--ctx", "2048", "--gpu", "8", "--parallel", "1")
    assert [device["device"] for device in wide["devices"]] == ["GPU0", "host"]
    assert (wide["slots"], narrow["slots"]) == (4, 1)
    assert narrow["kv_bytes"] < wide["kv_bytes"]
    impossible = user.blazar("fit", "m", "--cache-type", "q8_0")
    assert impossible.status == 8
    assert "does not divide this model's heads of 16" in impossible.out
    refused = user.blazar("fit", "m", "--ctx", "4096", "--gpu", "0.1")
    assert refused.status == 8
    assert "It does not fit" in refused.out
    assert "|" in refused.out


def test_config_shows_whose_a_value_is(user: User) -> None:
    user.config_file.write_text('idle_timeout_secs = 7\n[models."a b"]\nctx = 4096\n')
    shown = user.ok("config", "show")
    lines = {line.split()[0]: line.split()[-1] for line in shown.splitlines()}
    assert (lines["idle_timeout_secs"], lines["port"]) == ("config.toml", "default")
    assert user.json("config", "show")["models"]["a b"]["ctx"] == 4096
    assert user.json("config", "path")["config_file"] == str(user.config_file)


def test_config_check_names_the_mistake(user: User) -> None:
    assert "is valid" in user.ok("config", "check")
    user.config_file.write_text("idle_timeout_sec = 7\n")
    ended = user.blazar("config", "check")
    assert ended.status == 9
    assert "idle_timeout_secs" in ended.err


def test_the_sample_is_valid_and_the_schema_is_one(user: User, tmp_path: Path) -> None:
    sample = tmp_path / "sample.toml"
    sample.write_text(user.ok("config", "sample"))
    assert user.json("config", "check", sample)["valid"] is True
    schema = json.loads(user.ok("config", "schema"))
    assert "idle_timeout_secs" in schema["properties"]


def test_logs_are_read_without_a_daemon(user: User) -> None:
    log = user.data_dir / "run" / "daemon.log"
    log.parent.mkdir(parents=True)
    log.write_text("one\ntwo\nthree\n")
    assert user.ok("logs", "-n", "2") == "two\nthree\n"
    user.add_model("m")
    assert "nothing has run yet" in user.blazar("logs", "m").err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_gets_a_script_that_asks_blazar(user: User, shell: str) -> None:
    script = user.ok("completion", shell)
    assert "_BLAZAR_COMPLETE" in script
    assert f"{shell}_complete" in script


def test_service_print_shows_the_unit_for_this_interpreter(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    unit = user.ok("service", "print", "--port", "8000")
    assert "RestartPreventExitStatus=3\n" in unit
    assert f"BLAZAR_DATA_DIR={user.data_dir}" in unit
    assert "--port 8000" in unit


def test_service_install_writes_the_unit_and_uninstall_removes_it(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    told = tmp_path / "told"
    tools = tmp_path / "bin"
    tools.mkdir()
    fake = tools / "systemctl"
    fake.write_text(f'#!/bin/sh\necho "$@" >> {told}\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    unit = tmp_path / ".config" / "systemd" / "user" / "blazar.service"
    user.ok("service", "install")
    assert "ExecStart=" in unit.read_text()
    user.ok("service", "uninstall")
    assert not unit.exists()
    assert told.read_text().splitlines() == [
        "--user daemon-reload",
        "--user enable --now blazar.service",
        "--user disable --now blazar.service",
        "--user daemon-reload",
    ]
    assert "no service" in user.ok("service", "uninstall")
    fake.write_text("#!/bin/sh\necho 'Failed to connect to bus' >&2; exit 1\n")
    ended = user.blazar("service", "install")
    assert ended.status == 1
    assert "Failed to connect to bus" in ended.err


def test_a_system_without_a_service_manager_is_told_how_to_go_on(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "blazar service print" in user.blazar("service", "install").err


def test_version_as_json_names_every_package(user: User) -> None:
    assert set(user.json("version")["packages"]) >= {"blazar-cli", "blazar-gguf"}

"""The commands that talk to a daemon, and what they say when there is none."""

import json
from typing import Any

import pytest

from bench_parts.servers import free_port
from blazar_cli.exit_codes import ExitCode
from blazar_stubs import StubModel
from e2e.home import Home
from e2e.served import Served
from e2e.waiting import eventually


@pytest.fixture(scope="module")
def model(shared: Served) -> StubModel:
    return shared.add_model("m")


def scripted(**script: Any) -> str:
    return f"[[stub: {json.dumps(script)}]]"


@pytest.mark.promise("command:run")
def test_run_prints_the_answer_and_nothing_else(shared: Served, model: StubModel) -> None:
    assert shared.home.ok("run", "m", scripted(text="forty-two")).strip() == "forty-two"


@pytest.mark.promise("command:run")
def test_run_puts_what_is_piped_in_before_the_prompt(shared: Served, model: StubModel) -> None:
    shared.home.ok("run", "m", "what is it?", stdin="a long text\n")
    sent = json.loads(model.requests("/v1/chat/completions")[-1]["body"])
    assert sent["messages"][-1]["content"] == "a long text\n\nwhat is it?"


@pytest.mark.promise("command:run")
def test_run_leaves_thinking_out_of_a_pipe(shared: Served, model: StubModel) -> None:
    shown = shared.home.ok("run", "m", scripted(reasoning="hm, let me see", text="forty-two"))
    assert shown.strip() == "forty-two"


@pytest.mark.promise("command:run")
def test_run_on_an_unknown_model_is_exit_status_6_with_the_server_s_text(shared: Served, model: StubModel) -> None:
    done = shared.home.blazar("run", "nobody", "hi")
    assert done.returncode == ExitCode.NOT_FOUND
    assert done.stderr.strip() == shared.client.chat("nobody").json()["error"]["message"]


@pytest.mark.promise("command:ps")
def test_ps_shows_what_is_loaded_and_stop_unloads_it(served: Served) -> None:
    served.add_model("m")
    assert served.home.json("ps") == []
    assert served.client.chat("m").status == 200
    (resident,) = served.home.json("ps")
    assert (resident["child"], resident["state"]) == ("m", "ready")
    assert "m" in served.home.ok("ps")
    served.home.ok("stop", "m")
    eventually(lambda: not served.daemon.engines(), what="the engine has ended")
    assert served.home.json("ps") == []


@pytest.mark.promise("command:status")
def test_status_names_the_daemon_its_address_and_its_files(shared: Served, model: StubModel) -> None:
    status = shared.home.json("status")
    assert status["pid"] == shared.daemon.process.pid
    assert status["address"] == shared.daemon.url
    assert status["data_dir"] == str(shared.home.data_dir)
    assert shared.daemon.url in shared.home.ok("status")


@pytest.mark.promise("command:logs")
def test_logs_shows_the_daemon_s_and_a_model_s(shared: Served, model: StubModel) -> None:
    assert shared.client.chat("m").status == 200
    assert "listening on" in shared.home.ok("logs")
    assert "llama_server" in shared.home.ok("logs", "m")
    assert len(shared.home.ok("logs", "-n", "1").splitlines()) == 1


@pytest.mark.promise("command:stop-daemon")
def test_stop_daemon_returns_when_it_has_stopped(served: Served) -> None:
    served.home.ok("stop", "--daemon")
    assert served.daemon.wait() == 0


@pytest.mark.promise("command:config")
def test_config_shows_where_the_file_is_and_what_holds(home: Home) -> None:
    assert home.ok("config", "path").strip() == str(home.config_file)
    home.configure("idle_timeout_secs = 7\n")
    assert home.json("config", "show")["idle_timeout_secs"] == 7
    assert "is valid" in home.ok("config", "check")


@pytest.mark.promise("command:version")
@pytest.mark.parametrize("arguments", [("version",), ("--version",)])
def test_version_is_one_line(home: Home, arguments: tuple[str, ...]) -> None:
    shown = home.ok(*arguments)
    assert shown.startswith("blazar 0.")
    assert shown.count("\n") == 1


@pytest.mark.promise("command:no-accounts")
@pytest.mark.parametrize("verb", ["login", "signin"])
def test_there_are_no_accounts_and_one_line_says_so(home: Home, verb: str) -> None:
    done = home.blazar(verb)
    assert done.returncode == ExitCode.REFUSED
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.promise("command:daemon-down")
@pytest.mark.parametrize(
    "arguments", [("ps",), ("status",), ("run", "m", "hi"), ("stop", "m"), ("stop", "--daemon")], ids=" ".join
)
def test_with_the_daemon_down_a_command_names_the_one_that_starts_it(home: Home, arguments: tuple[str, ...]) -> None:
    home.configure(f"port = {free_port()}\n")
    done = home.blazar(*arguments)
    assert done.returncode == ExitCode.DAEMON_DOWN
    assert "blazar serve" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.promise("command:json")
@pytest.mark.parametrize(
    "arguments",
    [("models", "list"), ("engine", "list"), ("ps",), ("status",), ("config", "show"), ("models", "show", "m")],
    ids=" ".join,
)
def test_every_listing_speaks_json(shared: Served, model: StubModel, arguments: tuple[str, ...]) -> None:
    assert isinstance(shared.home.json(*arguments), list | dict)


@pytest.mark.promise("command:any-address")
def test_a_command_reaches_a_daemon_at_another_address(home: Home, shared: Served, model: StubModel) -> None:
    done = home.blazar("run", "m", scripted(text="from afar"), env={"BLAZAR_HOST": shared.daemon.url})
    assert (done.returncode, done.stdout.strip()) == (0, "from afar"), done.stderr

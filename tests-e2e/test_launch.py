"""`blazar launch`: agents that are stand-ins, and that really ask the endpoint they were given."""

import json
import os
import subprocess
from typing import Any

import pytest

from blazar_cli.exit_codes import ExitCode
from e2e.fake_agent import install_agent
from e2e.home import Home
from e2e.served import Served
from e2e.waiting import eventually

AGENTS = ("claude", "codex", "opencode", "aider")
LONG: Any = {"tools": True, "context_length": 65_536}


@pytest.fixture(scope="module")
def agents(shared: Served) -> Served:
    shared.add_model("coder", **LONG)
    for name in AGENTS:
        install_agent(shared.home.root / "bin", name)
    return shared


def path_with(home: Home) -> str:
    return f"{home.root / 'bin'}{os.pathsep}{os.environ['PATH']}"


def launch(home: Home, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return home.blazar("launch", *arguments, env={"PATH": path_with(home), **env})


def told(done: subprocess.CompletedProcess[str]) -> Any:
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.promise("command:launch")
@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_is_started_on_the_model_and_gets_an_answer(agents: Served, agent: str) -> None:
    done = launch(agents.home, agent, "--model", "coder", "--", "-p", "do it", AGENT_EXITS="7")
    found = told(done)
    assert done.returncode == 7
    assert found["said"]
    assert found["argv"][-2:] == ["-p", "do it"]
    assert "Warning" not in done.stderr
    # Nothing of the user's own: what an agent is told in a file lies in Blazar's directory.
    assert not [path for path in agents.home.root.iterdir() if path.name.startswith(".")]
    assert [path.name for path in agents.home.config_file.parent.parent.iterdir()] == ["blazar"]


@pytest.mark.promise("command:launch")
def test_the_only_model_that_suits_is_taken_and_the_window_is_told(agents: Served) -> None:
    found = told(launch(agents.home, "claude", ANTHROPIC_API_KEY="the user's own"))
    env = found["env"]
    assert {env[name] for name in env if name.startswith("ANTHROPIC_") and name.endswith("_MODEL")} == {"coder"}
    (served,) = [child for child in agents.daemon.residents() if child["model"] == "coder"]
    assert env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] == str(served["context_length"])
    assert "ANTHROPIC_API_KEY" not in env


@pytest.mark.promise("command:launch")
@pytest.mark.parametrize("agent", AGENTS)
def test_what_print_shows_works_in_a_shell(agents: Served, agent: str) -> None:
    script = agents.home.blazar("launch", agent, "--print", "--model", "coder", "--", "x y", env={"PATH": "/nowhere"})
    assert script.returncode == 0, script.stderr
    done = subprocess.run(
        ["sh", "-e"],
        input=script.stdout,
        env=agents.home.env(PATH=path_with(agents.home)),
        cwd=agents.home.root,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert json.loads(done.stdout)["argv"][-1] == "x y"


@pytest.mark.promise("command:launch")
def test_an_agent_that_is_not_installed_is_refused_with_how_to_get_it(agents: Served) -> None:
    done = agents.home.blazar("launch", "codex", "--model", "coder", env={"PATH": "/nowhere"})
    assert done.returncode == ExitCode.NOT_FOUND
    assert "npm install -g @openai/codex" in done.stderr


@pytest.mark.promise("command:launch")
def test_a_short_context_and_a_template_without_tools_are_said_before_the_start(served: Served) -> None:
    served.add_model("small", chat_template="{% for m in messages %}{{ m.content }}{% endfor %}")
    install_agent(served.home.root / "bin", "claude")
    done = launch(served.home, "claude")
    assert told(done)["said"]
    assert "context of 4096 tokens" in done.stderr
    assert "choose one with a longer context" in done.stderr
    assert "has no tools" in done.stderr
    served.add_model("long", **LONG)
    served.home.configure('stream_ping_secs = 1\n[models."long"]\nctx = 8192\n')
    done = launch(served.home, "claude", "--model", "long")
    assert 'Set `ctx = 32768` under [models."long"]' in done.stderr


@pytest.mark.promise("command:launch")
def test_several_models_ask_which_and_none_says_how_to_get_one(served: Served) -> None:
    install_agent(served.home.root / "bin", "claude")
    done = launch(served.home, "claude")
    assert done.returncode == ExitCode.USAGE
    assert "blazar models add PATH" in done.stderr
    served.add_model("one", **LONG)
    served.add_model("two", **LONG)
    done = launch(served.home, "claude")
    assert done.returncode == ExitCode.USAGE
    assert "Say which" in done.stderr
    assert launch(served.home, "claude", "--model", "nobody").returncode == ExitCode.NOT_FOUND


@pytest.mark.promise("command:launch")
def test_the_key_that_is_known_here_is_used_and_its_lack_is_said(served: Served) -> None:
    served.add_model("coder", **LONG)
    install_agent(served.home.root / "bin", "codex")
    served.home.configure(
        '[[keys]]\nname = "admin"\nkey = "plm_everything1"\n\n'
        '[[keys]]\nname = "agent"\nkey = "plm_only-coder1"\nmodels = ["coder"]\n'
    )
    eventually(lambda: served.client.get("/v1/models").status == 401, what="the gateway asks for keys")
    found = told(launch(served.home, "codex"))
    assert found["env"]["BLAZAR_API_KEY"] == "plm_only-coder1"
    assert "plm_" not in (served.home.data_dir / "agents" / "codex" / "config.toml").read_text()
    assert told(launch(served.home, "codex", BLAZAR_API_KEY="plm_everything1"))["said"]
    done = launch(served.home, "codex", BLAZAR_API_KEY="plm_something-else")
    assert done.returncode == ExitCode.REFUSED
    assert "blazar keys add agents" in done.stderr


@pytest.mark.promise("command:launch")
def test_without_a_daemon_the_advice_is_to_start_one(home: Home) -> None:
    install_agent(home.root / "bin", "claude")
    done = home.blazar("launch", "claude", env={"PATH": path_with(home), "BLAZAR_HOST": "127.0.0.1:9"})
    assert done.returncode == ExitCode.DAEMON_DOWN
    assert "blazar serve" in done.stderr

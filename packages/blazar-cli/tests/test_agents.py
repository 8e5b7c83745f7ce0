"""What agents are told, as a table; that it works is shown in tests-e2e/test_launch.py."""

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from blazar_cli.agents.plans import AGENTS, NO_KEY, Target
from blazar_cli.agents.target import Model, describe, doubts

DIRECTORY = Path("/data/agents/x")


def target(*, ctx_tokens: int | None = 65_536, api_key: str | None = "plm_secret01") -> Target:
    return Target("http://127.0.0.1:11435", "org/coder:q4", ctx_tokens, api_key, DIRECTORY)


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("ctx_tokens", [None, 4096, 65_536, 1_048_576])
@pytest.mark.parametrize("api_key", [None, "plm_secret01"])
def test_every_plan_names_the_daemon_and_keeps_the_key_out_of_files(
    agent: str, ctx_tokens: int | None, api_key: str | None
) -> None:
    plan = AGENTS[agent].plan(target(ctx_tokens=ctx_tokens, api_key=api_key))
    told = " ".join([*plan.environment.values(), *plan.arguments, *plan.files.values()])
    assert "http://127.0.0.1:11435" in told
    assert "org/coder:q4" in told
    assert all(path.is_relative_to(DIRECTORY) for path in plan.files)
    assert not any("plm_secret01" in text for text in plan.files.values())
    assert ("plm_secret01" in plan.environment.values()) == (api_key is not None)
    assert not set(plan.unset) & set(plan.environment)


def test_an_answer_never_takes_more_than_a_quarter_of_the_context() -> None:
    assert [target(ctx_tokens=tokens).answer_tokens for tokens in (4096, 65_536, 1_048_576)] == [1024, 16_384, 32_000]


def test_codex_gets_a_provider_that_speaks_responses_and_a_window() -> None:
    plan = AGENTS["codex"].plan(target())
    config = tomllib.loads(plan.files[DIRECTORY / "config.toml"])
    assert config["model_providers"][config["model_provider"]] == {
        "name": "Blazar",
        "base_url": "http://127.0.0.1:11435/v1",
        "wire_api": "responses",
        "env_key": "BLAZAR_API_KEY",
    }
    assert config["model_auto_compact_token_limit"] < config["model_context_window"] == 65_536
    open_gateway = AGENTS["codex"].plan(target(api_key=None, ctx_tokens=None))
    # A variable that it is told of and that is not set would end it.
    assert "env_key" not in open_gateway.files[DIRECTORY / "config.toml"]


def test_opencode_and_aider_are_told_the_limit_that_they_cannot_guess() -> None:
    config = json.loads(AGENTS["opencode"].plan(target()).files[DIRECTORY / "opencode.json"])
    assert config["provider"]["blazar"]["models"]["org/coder:q4"]["limit"] == {"context": 65_536, "output": 16_384}
    metadata = json.loads(AGENTS["aider"].plan(target()).files[DIRECTORY / "model-metadata.json"])
    assert metadata["openai/org/coder:q4"]["max_input_tokens"] == 65_536
    assert AGENTS["aider"].plan(target(ctx_tokens=None)).files == {}


def test_claude_gets_no_other_model_and_no_other_account() -> None:
    plan = AGENTS["claude"].plan(target(api_key=None))
    models = {value for name, value in plan.environment.items() if name.endswith("_MODEL")}
    assert models == {"org/coder:q4"}
    assert plan.environment["ANTHROPIC_AUTH_TOKEN"] == NO_KEY
    assert "ANTHROPIC_API_KEY" in plan.unset


@pytest.mark.parametrize(
    ("agent", "model", "words"),
    [
        pytest.param("claude", Model("m", 65_536, 131_072, True, ("completion", "tools")), (), id="all is well"),
        pytest.param("claude", Model("m", 4096, 131_072, False, ("completion", "tools")), (), id="not known yet"),
        pytest.param("claude", Model("m", 8192, 131_072, True, ("tools",)), ("`ctx = 32768`",), id="served too short"),
        pytest.param("codex", Model("m", 8192, 8192, True, ("tools",)), ("longer context",), id="trained too short"),
        pytest.param("opencode", Model("m", 65_536, 65_536, True, ("completion",)), ("no tools",), id="no tools"),
        pytest.param("aider", Model("m", 8192, 8192, True, ("completion",)), (), id="aider needs neither"),
    ],
)
def test_what_may_not_work_is_said_with_what_to_change(agent: str, model: Model, words: tuple[str, ...]) -> None:
    found = doubts(AGENTS[agent], model)
    assert len(found) == len(words)
    assert all(word in text for word, text in zip(words, found, strict=True))


def test_a_model_of_the_list_is_read_leniently() -> None:
    assert describe({"id": "m"}) == Model("m", None, None, False, ())
    entry = {"id": "m", "context_length": 8, "max_context_length": 9, "state": "ready", "capabilities": ["tools"]}
    assert describe({**entry}) == Model("m", 8, 9, True, ("tools",))


def test_a_certificate_that_nobody_vouches_for_is_named_to_agents_that_can_add_one() -> None:
    trusted = replace(target(), certificate=Path("/tls/cert.pem"))
    told = {name: agent.plan(trusted).environment.get("NODE_EXTRA_CA_CERTS") for name, agent in AGENTS.items()}
    assert told == {"claude": "/tls/cert.pem", "opencode": "/tls/cert.pem", "codex": None, "aider": None}

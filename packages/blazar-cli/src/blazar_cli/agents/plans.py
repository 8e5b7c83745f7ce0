"""What each agent has to be told so that it talks to Blazar: variables, arguments, files of ours.

Pure. The user's own files are never touched: what an agent can only be told in a file goes into one below our data
directory, which the agent is pointed to.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

KEY_VARIABLE = "BLAZAR_API_KEY"
"""Where agents that read a variable of our choice find the key."""

NO_KEY = "blazar"
"""What is sent where the gateway asks for no key and the agent insists on one."""

_ANSWER_SHARE = 4
_LONGEST_ANSWER = 32_000


@dataclass(frozen=True, slots=True)
class Target:
    """What an agent is pointed to.

    Attributes:
        base_url: The daemon's address, without ``/v1``.
        model: The row's name.
        ctx_tokens: The context it is served with, or ``None`` when that is not known yet.
        api_key: The key to send, or ``None`` where none is asked for.
        directory: Where files for this agent may be written.
        certificate: The daemon's certificate where no authority vouches for it, or ``None``.
    """

    base_url: str
    model: str
    ctx_tokens: int | None
    api_key: str | None
    directory: Path
    certificate: Path | None = None

    @property
    def answer_tokens(self) -> int | None:
        """The longest answer to ask for: a quarter of the context, so that the prompt has the rest."""
        return None if self.ctx_tokens is None else min(self.ctx_tokens // _ANSWER_SHARE, _LONGEST_ANSWER)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to start an agent.

    Attributes:
        environment: Variables to set.
        unset: Variables that would lead it elsewhere.
        arguments: Before the user's own.
        files: Text by path; all of them below the target's directory. None holds a key.
    """

    environment: Mapping[str, str]
    unset: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    files: Mapping[Path, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that can be launched.

    Attributes:
        name: As typed after ``blazar launch``.
        title: Its maker's name for it.
        command: The program.
        install: How to get it.
        least_ctx: Tokens below which its own instructions and tools leave little room to work.
        needs_tools: Whether it works through tool calls.
        plan: Returns how to start it.
    """

    name: str
    title: str
    command: str
    install: str
    least_ctx: int
    needs_tools: bool
    plan: Callable[[Target], Plan]


def plan_claude(target: Target) -> Plan:
    """Tell Claude Code by variables; every model it might choose by itself is this one.

    Source: code.claude.com, "Environment variables" and "LLM gateway configuration", 2.1.
    """
    environment = {
        "ANTHROPIC_BASE_URL": target.base_url,
        "ANTHROPIC_AUTH_TOKEN": target.api_key or NO_KEY,
        "ANTHROPIC_MODEL": target.model,
        "ANTHROPIC_SMALL_FAST_MODEL": target.model,
        "ANTHROPIC_DEFAULT_OPUS_MODEL": target.model,
        "ANTHROPIC_DEFAULT_SONNET_MODEL": target.model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": target.model,
        "CLAUDE_CODE_SUBAGENT_MODEL": target.model,
        # Nothing but the questions themselves leaves for anywhere.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        # A line that differs in each request at the prompt's very start would make every prefill a new one.
        "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
    }
    if target.ctx_tokens is not None:
        # It takes 200,000 for granted, and would compact too late.
        environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(target.ctx_tokens)
        environment["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(target.ctx_tokens)
        environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(target.answer_tokens)
    environment |= _trust(target)
    unset = (
        "ANTHROPIC_API_KEY",
        "CLAUDE_CODE_API_BASE_URL",
        "CLAUDE_CODE_USE_BEDROCK",
        "CLAUDE_CODE_USE_VERTEX",
        "CLAUDE_CODE_USE_FOUNDRY",
    )
    return Plan(environment, unset)


def _trust(target: Target) -> dict[str, str]:
    """Return what makes a program on Node or Bun trust the daemon's own certificate besides the usual ones."""
    return {} if target.certificate is None else {"NODE_EXTRA_CA_CERTS": str(target.certificate)}


def plan_codex(target: Target) -> Plan:
    """Give Codex a home of its own with a provider in it.

    It reads providers from its home's ``config.toml`` only, and since 2026-02 speaks the Responses API only. The
    names ``openai``, ``ollama`` and ``lmstudio`` are reserved. Source: Codex's configuration reference, 0.171.
    """
    lines = [
        "# Written by `blazar launch codex`, anew at each start.",
        f"model = {json.dumps(target.model)}",
        'model_provider = "blazar"',
    ]
    if target.ctx_tokens is not None:
        lines.append(f"model_context_window = {target.ctx_tokens}")
        lines.append(f"model_auto_compact_token_limit = {target.ctx_tokens * 85 // 100}")
    lines += [
        "",
        "[model_providers.blazar]",
        'name = "Blazar"',
        f"base_url = {json.dumps(f'{target.base_url}/v1')}",
        'wire_api = "responses"',
    ]
    if target.api_key is not None:
        lines.append(f'env_key = "{KEY_VARIABLE}"')
    environment = {"CODEX_HOME": str(target.directory)}
    if target.api_key is not None:
        environment[KEY_VARIABLE] = target.api_key
    # The model as an argument too: two launches at once share the file.
    arguments = ("--model", target.model)
    return Plan(environment, arguments=arguments, files={target.directory / "config.toml": "\n".join(lines) + "\n"})


def plan_opencode(target: Target) -> Plan:
    """Give OpenCode a configuration file with a provider in it, merged with the user's own.

    The chosen model is said in ``OPENCODE_CONFIG_CONTENT`` too, which alone beats a project's own choice. Without a
    ``limit`` it never compacts. Source: opencode.ai, "Config" and "Providers", 1.18.
    """
    model: dict[str, object] = {"name": target.model}
    if target.ctx_tokens is not None:
        model["limit"] = {"context": target.ctx_tokens, "output": target.answer_tokens}
    chosen = {"model": f"blazar/{target.model}", "small_model": f"blazar/{target.model}"}
    config = {
        "$schema": "https://opencode.ai/config.json",
        "provider": {
            "blazar": {
                "npm": "@ai-sdk/openai-compatible",
                "name": "Blazar",
                "options": {"baseURL": f"{target.base_url}/v1", "apiKey": f"{{env:{KEY_VARIABLE}}}"},
                "models": {target.model: model},
            }
        },
        **chosen,
    }
    path = target.directory / "opencode.json"
    environment = {
        "OPENCODE_CONFIG": str(path),
        "OPENCODE_CONFIG_CONTENT": json.dumps(chosen),
        KEY_VARIABLE: target.api_key or NO_KEY,
        **_trust(target),
    }
    return Plan(environment, files={path: json.dumps(config, indent=2) + "\n"})


def plan_aider(target: Target) -> Plan:
    """Tell aider by variables and arguments; a file of ours says how long the model's context is.

    Source: aider.chat, "OpenAI compatible APIs" and "Advanced model settings", 0.86.
    """
    name = f"openai/{target.model}"
    environment = {
        "OPENAI_API_BASE": f"{target.base_url}/v1",
        "OPENAI_API_KEY": target.api_key or NO_KEY,
        # Commit messages and summaries: else it asks for a model of OpenAI's.
        "AIDER_WEAK_MODEL": name,
        "AIDER_EDITOR_MODEL": name,
    }
    if target.ctx_tokens is None:
        return Plan(environment, arguments=("--model", name))
    path = target.directory / "model-metadata.json"
    metadata = {
        name: {
            "max_tokens": target.answer_tokens,
            "max_input_tokens": target.ctx_tokens,
            "max_output_tokens": target.answer_tokens,
            "input_cost_per_token": 0,
            "output_cost_per_token": 0,
            "litellm_provider": "openai",
            "mode": "chat",
        }
    }
    arguments = ("--model", name, "--model-metadata-file", str(path))
    return Plan(environment, arguments=arguments, files={path: json.dumps(metadata, indent=2) + "\n"})


AGENTS: Mapping[str, Agent] = {
    agent.name: agent
    for agent in (
        # What they say of themselves before the first question, tools included, is 10,000 to 20,000 tokens.
        Agent(
            "claude",
            "Claude Code",
            "claude",
            "npm install -g @anthropic-ai/claude-code",
            32_768,
            needs_tools=True,
            plan=plan_claude,
        ),
        Agent("codex", "Codex", "codex", "npm install -g @openai/codex", 32_768, needs_tools=True, plan=plan_codex),
        Agent(
            "opencode",
            "OpenCode",
            "opencode",
            "npm install -g opencode-ai",
            32_768,
            needs_tools=True,
            plan=plan_opencode,
        ),
        # It works with edits in plain text, and its repository map adapts to the context.
        Agent("aider", "aider", "aider", "uv tool install aider-chat", 8_192, needs_tools=False, plan=plan_aider),
    )
}
"""The agents by name."""

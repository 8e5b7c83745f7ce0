"""An owner's rules reach the engine in every dialect, and a model answers to its aliases in every dialect."""

from typing import Any

import pytest

from blazar_gateway.request_rules import RequestRules
from blazar_gateway.testing import FixedCatalogue, ReadyHost, ScriptedEngine, card, fetch, serve
from blazar_store.types import RowOverlay

HI = {"role": "user", "content": "hi"}
RULES = RequestRules(
    default={"top_k": 5, "temperature": 0.5, "max_tokens": 11},
    force={"seed": 3, "top_p": 0.75},
    strip=("min_p", "stop"),
)
ASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "openai": ("/v1/chat/completions", {"messages": [HI]}),
    "openai-stream": ("/v1/chat/completions", {"messages": [HI], "stream": True}),
    "responses": ("/v1/responses", {"input": "hi"}),
    "anthropic": ("/v1/messages", {"messages": [HI], "max_tokens": 9}),
    "ollama-chat": ("/api/chat", {"messages": [HI]}),
    "ollama-generate": ("/api/generate", {"prompt": "hi"}),
    "ollama-raw": ("/api/generate", {"prompt": "hi", "raw": True}),
    "completions": ("/v1/completions", {"prompt": "hi"}),
}
ENGINE_PATHS = {"/v1/chat/completions", "/v1/completions"}


async def sent(
    host: ReadyHost, engine: ScriptedEngine, name: str, more: dict[str, Any], *, row: Any = None, model: str = "m"
) -> dict[str, Any]:
    """Return what the engine was asked when a client asks in this dialect."""
    path, body = ASKS[name]
    options = {"options": more} if path.startswith("/api/") else more
    async with serve(host, catalogue=FixedCatalogue(row or card(rules=RULES))) as served:
        answer = await fetch(served.port, "POST", path, {"model": model, **body, **options})
    assert answer.status == 200, answer
    return next(one.json for one in engine.exchanges if one.path in ENGINE_PATHS)


@pytest.mark.parametrize("name", ASKS)
async def test_defaults_fill_force_overrules_and_strip_takes_out(
    host: ReadyHost, engine: ScriptedEngine, name: str
) -> None:
    # Of what the other APIs know, these are in every one of them; the rest is silently none of theirs.
    fields = await sent(host, engine, name, {"temperature": 0.9, "top_p": 0.1})
    assert (fields["temperature"], fields["top_k"]) == (0.9, 5)
    assert (fields["seed"], fields["top_p"]) == (3, 0.75)
    assert fields["max_tokens"] == (9 if name == "anthropic" else 11)


@pytest.mark.parametrize("name", ["openai", "openai-stream", "ollama-chat", "ollama-raw", "completions"])
async def test_what_is_stripped_never_arrives(host: ReadyHost, engine: ScriptedEngine, name: str) -> None:
    fields = await sent(host, engine, name, {"min_p": 0.4, "stop": ["x"], "top_k": 2})
    assert fields["top_k"] == 2
    assert not {"min_p", "stop"} & fields.keys()


async def test_the_rules_go_before_what_a_row_adds(host: ReadyHost, engine: ScriptedEngine) -> None:
    row = card(
        rules=RULES, overlay=RowOverlay(parameters={"top_k": 99, "stop": ["END"], "repeat_penalty": 1.5, "seed": 8})
    )
    fields = await sent(host, engine, "openai", {}, row=row)
    assert (fields["top_k"], fields["seed"], fields["repeat_penalty"]) == (5, 3, 1.5)
    assert "stop" not in fields


async def test_a_limit_by_another_name_counts_as_said(host: ReadyHost, engine: ScriptedEngine) -> None:
    fields = await sent(host, engine, "openai", {"max_completion_tokens": 4})
    assert fields["max_tokens"] == 4


THINKER = ("completion", "thinking")


@pytest.mark.parametrize(
    ("rules", "more", "arguments"),
    [
        pytest.param({}, {}, {"enable_thinking": False}, id="nobody-says"),
        pytest.param({"decides_thinking": True}, {}, None, id="the-settings-of-the-model-decide"),
        pytest.param(
            {"default": {"reasoning_effort": "low"}},
            {},
            {"enable_thinking": True, "reasoning_effort": "low"},
            id="an-effort-by-default",
        ),
        pytest.param(
            {"default": {"chat_template_kwargs": {"enable_thinking": True}}},
            {"think": False},
            {"enable_thinking": False},
            id="a-request-goes-before-the-default",
        ),
        pytest.param(
            {"force": {"chat_template_kwargs": {"enable_thinking": False}}},
            {"think": True},
            {"enable_thinking": False},
            id="never-thinks",
        ),
        pytest.param({"strip": ("think",)}, {"think": True}, {"enable_thinking": False}, id="the-wish-is-taken-out"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
async def test_whether_a_model_thinks(
    host: ReadyHost,
    engine: ScriptedEngine,
    path: str,
    rules: dict[str, Any],
    more: dict[str, Any],
    arguments: dict[str, Any] | None,
) -> None:
    row = card(rules=RequestRules(**rules), capabilities=THINKER)
    async with serve(host, catalogue=FixedCatalogue(row)) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", "messages": [HI], **more})
    assert answer.status == 200, answer
    [fields] = [one.json for one in engine.exchanges if one.path in ENGINE_PATHS]
    assert fields.get("chat_template_kwargs") == arguments


async def test_without_rules_the_clients_bytes_stay(host: ReadyHost, engine: ScriptedEngine) -> None:
    raw = b'{"model": "m",  "messages": [{"role": "user", "content": "hi"}]}'
    async with serve(host, catalogue=FixedCatalogue(card())) as served:
        await fetch(served.port, "POST", "/v1/chat/completions", raw)
    [exchange] = [one for one in engine.exchanges if one.path in ENGINE_PATHS]
    assert exchange.body.startswith(raw[:-1])


# Aliases

ALIASED = card(aliases=("gpt-4o", "fast"))


@pytest.mark.parametrize("name", ASKS)
async def test_alias_means_the_model_in_every_dialect(host: ReadyHost, engine: ScriptedEngine, name: str) -> None:
    fields = await sent(host, engine, name, {}, row=ALIASED, model="gpt-4o")
    assert fields["model"] == "m"


async def test_lists_show_aliases_and_whose_they_are(host: ReadyHost) -> None:
    async with serve(host, catalogue=FixedCatalogue(ALIASED)) as served:
        openai = (await fetch(served.port, "GET", "/v1/models")).json["data"]
        one = (await fetch(served.port, "GET", "/v1/models/gpt-4o")).json
        row = (await fetch(served.port, "GET", "/v1/models/m")).json
        tags = (await fetch(served.port, "GET", "/api/tags")).json["models"]
        headers = {"anthropic-version": "2023-06-01"}
        anthropic = (await fetch(served.port, "GET", "/v1/models", headers=headers)).json["data"]
        shown = (await fetch(served.port, "POST", "/api/show", {"model": "fast"})).json
    assert [(entry["id"], entry.get("alias_of")) for entry in openai] == [("m", None), ("gpt-4o", "m"), ("fast", "m")]
    assert (one["id"], one["alias_of"]) == ("gpt-4o", "m")
    assert row["aliases"] == ["gpt-4o", "fast"]
    assert [entry["name"] for entry in tags] == ["m", "gpt-4o", "fast"]
    assert len({entry["digest"] for entry in tags}) == 1
    assert [entry["id"] for entry in anthropic] == ["m", "gpt-4o", "fast"]
    assert "FROM /weights/m.gguf" in shown["modelfile"]

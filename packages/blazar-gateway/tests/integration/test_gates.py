"""What OpenAI's chat is checked for before a model is loaded, and teaching texts in every dialect."""

from typing import Any

import pytest

from blazar_gateway.testing import FixedCatalogue, ReadyHost, ScriptedEngine, card, fetch, serve

HI = [{"role": "user", "content": "hi"}]
CHAT = {"model": "m", "messages": HI}
THINKER = card(capabilities=("completion", "thinking"))


@pytest.mark.parametrize(
    ("row", "fields", "kwargs"),
    [
        pytest.param(THINKER, {}, {"enable_thinking": False}, id="absent-is-off"),
        pytest.param(THINKER, {"think": True}, {"enable_thinking": True}, id="think"),
        pytest.param(
            THINKER,
            {"reasoning_effort": "low"},
            {"enable_thinking": True, "reasoning_effort": "low"},
            id="effort-beats-absence",
        ),
        pytest.param(THINKER, {"reasoning_effort": "none"}, {"enable_thinking": False}, id="none-is-off"),
        pytest.param(
            THINKER,
            {"chat_template_kwargs": {"enable_thinking": True}},
            {"enable_thinking": True},
            id="the-templates-own-switch-beats-absence",
        ),
        pytest.param(
            THINKER,
            {"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "high"},
            {"enable_thinking": False, "reasoning_effort": "high"},
            id="the-templates-own-switch-beats-effort",
        ),
        pytest.param(card(), {}, None, id="no-markers"),
    ],
)
async def test_thinking_as_the_template_is_told(
    host: ReadyHost, engine: ScriptedEngine, row: Any, fields: dict[str, Any], kwargs: object
) -> None:
    async with serve(host, catalogue=FixedCatalogue(row)) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, **fields})
    assert answer.status == 200
    sent = engine.exchanges[0].json
    assert sent.get("chat_template_kwargs") == kwargs
    assert "think" not in sent
    assert sent.get("reasoning_effort") != "none"


async def test_effort_on_completions_is_taken_and_means_nothing(host: ReadyHost, engine: ScriptedEngine) -> None:
    async with serve(host, catalogue=FixedCatalogue(THINKER)) as served:
        body = {"model": "m", "prompt": "hi", "reasoning_effort": "high"}
        answer = await fetch(served.port, "POST", "/v1/completions", body)
    assert answer.status == 200
    assert "chat_template_kwargs" not in engine.exchanges[0].json


async def test_an_image_for_a_blind_model_is_refused_before_loading(host: ReadyHost) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    async with serve(host) as served:
        body = {"model": "m", "messages": [{"role": "user", "content": [part]}]}
        answer = await fetch(served.port, "POST", "/v1/chat/completions", body)
    assert answer.status == 400
    assert "cannot see" in answer.json["error"]["message"]
    assert host.tickets == []


SEES = card(capabilities=("completion", "vision"))


async def test_an_image_that_came_with_the_request_reaches_the_engine(host: ReadyHost, engine: ScriptedEngine) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    async with serve(host, catalogue=FixedCatalogue(SEES)) as served:
        body = {"model": "m", "messages": [{"role": "user", "content": [part]}]}
        answer = await fetch(served.port, "POST", "/v1/chat/completions", body)
    assert answer.status == 200
    sent: Any = engine.exchanges[0].json
    assert sent["messages"][0]["content"] == [part]


def text_of(body: Any) -> str:
    error = body["error"]
    return str(error if isinstance(error, str) else error["message"])


FOUR = (
    ("/v1/chat/completions", {"messages": HI}),
    ("/v1/messages", {"messages": HI, "max_tokens": 5}),
    ("/api/chat", {"messages": HI}),
    ("/v1/responses", {"input": "hi"}),
)
IMAGES = card("m", capabilities=("image",), engine="sdcpp")


@pytest.mark.parametrize(
    ("row", "model", "status"),
    [
        pytest.param(card(), "nobody", 404, id="unknown-model"),
        pytest.param(IMAGES, "m", 400, id="image-model"),
        pytest.param(card(capabilities=("embedding",)), "m", 400, id="embedding-model"),
        pytest.param(card(engine="whisper"), "m", 400, id="speech-recognition"),
    ],
)
async def test_a_teaching_text_is_the_same_in_four_dialects(host: ReadyHost, row: Any, model: str, status: int) -> None:
    async with serve(host, catalogue=FixedCatalogue(row)) as served:
        answers = [await fetch(served.port, "POST", path, {"model": model, **body}) for path, body in FOUR]
    assert [answer.status for answer in answers] == [status] * 4
    assert len({text_of(answer.json) for answer in answers}) == 1

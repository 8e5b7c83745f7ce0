"""Ollama's chat and generate over real sockets: what reaches the client, what reaches the child."""

import asyncio
import itertools
import json
from typing import Any

import pytest

from blazar_gateway.testing import (
    Exchange,
    FixedCatalogue,
    PlainSettings,
    RawClient,
    ReadyHost,
    ScriptedEngine,
    card,
    chat_frame,
    chat_stream,
    completion_frame,
    done_frame,
    error_frame,
    fetch,
    serve,
)
from blazar_gateway.testing.frames import usage_frame, usage_object
from blazar_gateway.testing.residents import FakeResident
from blazar_gateway.testing.transcripts import lines_of
from blazar_routing.errors import EngineCrashed

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
WHOLE = {**CHAT, "stream": False}
EMOJI = ["a😀", "é", "鶴", "b"]
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def says(*pieces: bytes) -> Any:
    async def script(exchange: Exchange) -> None:
        await exchange.stream(pieces)

    return script


def by_path(**answers: Any) -> Any:
    """Return an engine that answers each path (slashes as underscores) with a value, or with a stream of bytes."""

    async def script(exchange: Exchange) -> None:
        answer = answers[exchange.path.strip("/").replace("/", "_").replace("-", "_")]
        if isinstance(answer, bytes):
            await exchange.stream(answer)
        else:
            await exchange.answer(json.dumps(answer).encode())

    return script


async def test_a_stream_of_lines_is_the_default(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", CHAT, headers={"Content-Type": "text/plain"})
    assert answer.headers["content-type"] == "application/x-ndjson"
    *pieces, last = lines_of(answer.body)
    assert [piece["message"]["content"] for piece in pieces] == ["Hello", " ", "wörld"]
    assert all(piece["message"]["role"] == "assistant" and piece["done"] is False for piece in pieces)
    assert (last["done"], last["done_reason"], last["message"]["content"]) == (True, "stop", "")
    assert (last["prompt_eval_count"], last["eval_count"]) == (9, 3)
    assert last["prompt_eval_duration"] == 36_263_000
    assert type(last["total_duration"]) is int
    assert last["created_at"].endswith("Z")


async def test_a_whole_answer(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", {**WHOLE, "model": "m:latest"})
    assert answer.json["message"] == {"role": "assistant", "content": "Hello wörld"}
    assert answer.json["model"] == "m:latest"
    assert answer.headers["content-type"].startswith("application/json")


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 13, 64, 257])
async def test_a_character_cut_anywhere_arrives_whole(host: ReadyHost, engine: ScriptedEngine, size: int) -> None:
    whole = chat_stream(EMOJI)
    engine.script = says(*[whole[at : at + size] for at in range(0, len(whole), size)])
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", CHAT)
    assert [line["message"]["content"] for line in lines_of(answer.body)] == [*EMOJI, ""]


async def test_no_line_is_sent_while_there_is_nothing_to_say(host: ReadyHost, engine: ScriptedEngine) -> None:
    go = asyncio.Event()

    async def waits(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await go.wait()
        await exchange.chunk(chat_stream(["x"]))
        await exchange.end_stream()

    engine.script = waits
    async with serve(host, settings=PlainSettings(stream_ping_secs=0.01)) as served, RawClient(served.port) as client:
        await client.post("/api/chat", CHAT)
        await engine.arrived(1)
        await asyncio.sleep(0.1)
        go.set()
        answer = await client.answer()
    assert len(lines_of(answer.body)) == 2


async def test_calls_arrive_whole_with_objects(host: ReadyHost, engine: ScriptedEngine) -> None:
    def call(call_id: str, arguments: str) -> bytes:
        function = {"name": "f", "arguments": arguments}
        return chat_frame({"tool_calls": [{"index": 0, "id": call_id, "type": "function", "function": function}]})

    engine.script = says(
        call("a", '{"x"'), call("a", ": 1}"), call("b", '{"y": 2}'), chat_frame({}, finish="stop"), done_frame()
    )
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", {**CHAT, "tools": TOOLS})
        whole = await fetch(served.port, "POST", "/api/chat", {**WHOLE, "tools": TOOLS})
    lines = lines_of(answer.body)
    calls = list(itertools.chain(*[line["message"].get("tool_calls", []) for line in lines]))
    assert [call["function"]["arguments"] for call in calls] == [{"x": 1}, {"y": 2}]
    assert [call["function"]["arguments"] for call in whole.json["message"]["tool_calls"]] == [{"x": 1}, {"y": 2}]
    assert lines[-1]["done_reason"] == "stop"


@pytest.mark.parametrize("how", ["dies", "says-so"])
async def test_death_in_the_middle_ends_in_an_error_line(host: ReadyHost, engine: ScriptedEngine, how: str) -> None:
    async def breaks(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chat_frame({"content": "one"}))
        if how == "dies":
            exchange.die()
        else:
            await exchange.chunk(error_frame("Context size has been exceeded."))
            await exchange.end_stream()

    engine.script = breaks
    host.obituary = EngineCrashed(model="m", how="signal 11")
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", CHAT)
        whole = await fetch(served.port, "POST", "/api/chat", WHOLE)
    lines = lines_of(answer.body)
    assert isinstance(lines[-1]["error"], str)
    assert not any(line.get("done") for line in lines)
    assert whole.status >= 500
    assert isinstance(whole.json["error"], str)


async def test_an_engines_refusal_has_its_own_status_and_a_string(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def refuses(exchange: Exchange) -> None:
        error = {"code": 400, "message": "request (6024 tokens) exceeds", "type": "exceed_context_size_error"}
        await exchange.answer(json.dumps({"error": error}).encode(), status=400)

    engine.script = refuses
    async with serve(host) as served:
        for body in (CHAT, WHOLE):
            answer = await fetch(served.port, "POST", "/api/chat", body)
            assert (answer.status, answer.json["error"]) == (400, "request (6024 tokens) exceeds")


async def test_logprobs_on_the_lines(host: ReadyHost, engine: ScriptedEngine) -> None:
    entry = {"id": 5, "token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}
    engine.script = says(
        chat_frame({"content": "a"}),
        chat_frame({"content": "x"}, logprobs={"content": [entry]}),
        chat_frame({}, finish="stop"),
        done_frame(),
    )
    body = {**CHAT, "logprobs": True, "top_logprobs": 2}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", body)
        whole = await fetch(served.port, "POST", "/api/chat", {**body, "stream": False})
    shown = {"token": "x", "logprob": -0.5, "bytes": [120], "top_logprobs": []}
    assert lines_of(answer.body)[1]["logprobs"] == [shown]
    assert whole.json["logprobs"] == [shown]
    assert engine.exchanges[0].json["top_logprobs"] == 2


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
@pytest.mark.parametrize(
    ("keep_alive", "reason", "unloaded", "kept"),
    [
        pytest.param(None, "load", [], [], id="load"),
        pytest.param("5m", "load", [], [("m", 300.0)], id="load-and-keep"),
        pytest.param(0, "unload", ["m"], [], id="unload"),
        pytest.param("0s", "unload", ["m"], [], id="unload-as-duration"),
        pytest.param(-1, "load", [], [("m", None)], id="for-ever"),
    ],
)
async def test_nothing_to_say_loads_or_unloads(
    host: ReadyHost, engine: ScriptedEngine, path: str, keep_alive: object, reason: str, unloaded: Any, kept: Any
) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", "keep_alive": keep_alive})
    assert (answer.json["done"], answer.json["done_reason"]) == (True, reason)
    assert (host.unloaded, host.kept) == (unloaded, kept)
    assert engine.exchanges == []


async def test_keep_alive_with_a_question_is_set_and_nonsense_refused(host: ReadyHost) -> None:
    async with serve(host) as served:
        await fetch(served.port, "POST", "/api/chat", {**WHOLE, "keep_alive": 0})
        bad = await fetch(served.port, "POST", "/api/chat", {**WHOLE, "keep_alive": "soon"})
    assert host.kept == [("m", 0.0)]
    assert bad.status == 400
    assert "5m" in bad.json["error"]


THINKER = card("m", capabilities=("completion", "thinking"))
UNREAD = card("m", capabilities=("completion",), template_readable=False)


@pytest.mark.parametrize(
    ("row", "think", "kwargs"),
    [
        pytest.param(THINKER, None, {"enable_thinking": False}, id="absent-is-off"),
        pytest.param(THINKER, True, {"enable_thinking": True}, id="on"),
        pytest.param(THINKER, False, {"enable_thinking": False}, id="off"),
        pytest.param(THINKER, "high", {"enable_thinking": True, "reasoning_effort": "high"}, id="level"),
        pytest.param(card(), None, None, id="no-markers"),
        pytest.param(card(), False, {"enable_thinking": False}, id="no-markers-off-is-fine"),
        pytest.param(UNREAD, True, {"enable_thinking": True}, id="unreadable-fails-open"),
    ],
)
async def test_think_as_the_template_is_told(
    host: ReadyHost, engine: ScriptedEngine, row: Any, think: object, kwargs: object
) -> None:
    async with serve(host, catalogue=FixedCatalogue(row)) as served:
        for path, body in (("/api/chat", WHOLE), ("/api/generate", {"model": "m", "prompt": "hi", "stream": False})):
            engine.script = by_path(
                v1_chat_completions=chat_stream(["x"]), apply_template={"prompt": "hi"}, tokenize={"tokens": [1]}
            )
            answer = await fetch(served.port, "POST", path, {**body, "think": think})
            assert answer.status == 200
    sent = [each.json for each in engine.exchanges if each.path == "/v1/chat/completions"]
    assert [body.get("chat_template_kwargs") for body in sent] == [kwargs, kwargs]


@pytest.mark.parametrize("think", [True, "low", "high"])
async def test_think_on_a_template_without_markers_is_refused(host: ReadyHost, think: object) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", {**CHAT, "think": think})
    assert answer.status == 400
    assert '"m" does not support thinking' in answer.json["error"]
    assert host.tickets == []


async def test_thinking_never_leaks_into_the_content(host: ReadyHost, engine: ScriptedEngine) -> None:
    frames = [chat_frame({"reasoning_content": "hm"}), chat_frame({"content": "yes"})]
    engine.script = says(*frames, chat_frame({}, finish="stop"), done_frame())
    async with serve(host, catalogue=FixedCatalogue(THINKER)) as served:
        lines = lines_of((await fetch(served.port, "POST", "/api/chat", {**CHAT, "think": True})).body)
        whole = await fetch(served.port, "POST", "/api/chat", {**WHOLE, "think": True})
    assert [(line["message"].get("thinking"), line["message"]["content"]) for line in lines[:2]] == [
        ("hm", ""),
        (None, "yes"),
    ]
    assert whole.json["message"] == {"role": "assistant", "content": "yes", "thinking": "hm"}


GENERATE = {"model": "m", "prompt": "hi", "stream": False}


async def test_generate_returns_the_conversation_as_tokens(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = by_path(
        v1_chat_completions=chat_stream(["yo"]), apply_template={"prompt": "<u>hi<a>"}, tokenize={"tokens": [1, 2, 3]}
    )
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/generate", {**GENERATE, "system": "be brief"})
    assert answer.json["response"] == "yo"
    assert answer.json["context"] == [1, 2, 3]
    assert engine.exchanges[0].json["messages"] == [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "hi"},
    ]
    assert engine.exchanges[-1].json["content"] == "<u>hi<a>yo"


async def test_generate_goes_on_from_the_tokens_it_is_given(host: ReadyHost, engine: ScriptedEngine) -> None:
    completion = completion_frame(" there") + completion_frame("", finish="stop", usage=usage_object(7, 1))
    engine.script = by_path(
        v1_completions=completion + done_frame(), apply_template={"prompt": "<u>hi<a>"}, tokenize={"tokens": [8, 9]}
    )
    body = {**GENERATE, "context": [5, 6], "format": "json", "options": {"num_predict": 4}}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/generate", body)
    sent: Any = next(each.json for each in engine.exchanges if each.path == "/v1/completions")
    assert sent["prompt"] == [5, 6, "<u>hi<a>"]
    assert (sent["max_tokens"], sent["json_schema"]) == (4, {"type": "object"})
    assert "messages" not in sent
    assert answer.json["response"] == " there"
    assert answer.json["context"] == [5, 6, 8, 9]
    assert (answer.json["prompt_eval_count"], answer.json["eval_count"]) == (7, 1)


async def test_raw_and_a_template_of_the_clients_own_go_without_the_models(
    host: ReadyHost, engine: ScriptedEngine
) -> None:
    completion = completion_frame("x") + completion_frame("", finish="length", usage=usage_object(2, 1)) + done_frame()
    engine.script = by_path(v1_completions=completion)
    template = "{{ if .System }}S:{{ .System }} {{ end }}U:{{ .Prompt }} A:{{ .Response }}!"
    async with serve(host) as served:
        raw = await fetch(served.port, "POST", "/api/generate", {**GENERATE, "raw": True})
        own = await fetch(served.port, "POST", "/api/generate", {**GENERATE, "template": template, "system": "s"})
        bad = await fetch(served.port, "POST", "/api/generate", {**GENERATE, "template": "{{ range .Messages }}"})
    assert [each.json["prompt"] for each in engine.exchanges] == ["hi", "S:s U:hi A:"]
    assert "context" not in raw.json
    assert (raw.json["response"], raw.json["done_reason"], own.status) == ("x", "length", 200)
    assert bad.status == 400
    assert "range" in bad.json["error"]


async def test_a_suffix_is_filled_in_by_the_engines_own_call(host: ReadyHost, engine: ScriptedEngine) -> None:
    frames = [{"content": "mid", "stop": False}, {"content": "", "stop": True, "stop_type": "limit"}]
    frames[1] |= {"tokens_evaluated": 5, "tokens_predicted": 1, "timings": {"predicted_ms": 2.0}}
    body = b"".join(b"data: " + json.dumps(frame).encode() + b"\n\n" for frame in frames)
    engine.script = by_path(infill=body)
    async with serve(host) as served:
        asked = {**GENERATE, "suffix": "end", "options": {"num_predict": 1}}
        answer = await fetch(served.port, "POST", "/api/generate", asked)
    sent = engine.exchanges[0].json
    assert (sent["input_prefix"], sent["input_suffix"], sent["n_predict"]) == ("hi", "end", 1)
    assert (answer.json["response"], answer.json["done_reason"]) == ("mid", "length")
    assert (answer.json["prompt_eval_count"], answer.json["eval_count"]) == (5, 1)


async def test_a_suffix_for_a_model_without_the_tokens_is_refused(host: ReadyHost, engine: ScriptedEngine) -> None:
    async def refuses(exchange: Exchange) -> None:
        error = {"code": 501, "message": "Infill is not supported by this model", "type": "not_supported_error"}
        await exchange.answer(json.dumps({"error": error}).encode(), status=501)

    engine.script = refuses
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/generate", {**GENERATE, "suffix": "end"})
    assert answer.status == 400
    assert "does not support insert" in answer.json["error"]


async def test_images_on_a_text_model_are_refused_before_loading(host: ReadyHost) -> None:
    pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    messages = [{"role": "user", "content": "what?", "images": [pixel]}]
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", {**CHAT, "messages": messages})
    assert answer.status == 400
    assert "cannot see" in answer.json["error"]
    assert host.tickets == []


@pytest.mark.parametrize(
    ("num_ctx", "limit", "counted", "status"),
    [
        pytest.param(2048, None, None, 200, id="smaller-than-served"),
        pytest.param(9003, None, 3000, 200, id="larger-but-the-prompt-fits"),
        pytest.param(9003, 2000, 3000, 400, id="prompt-and-answer-do-not-fit"),
        pytest.param(9003, None, 5000, 400, id="prompt-does-not-fit"),
    ],
)
async def test_num_ctx_is_never_cut_silently(
    host: ReadyHost, engine: ScriptedEngine, num_ctx: int, limit: int | None, counted: int | None, status: int
) -> None:
    engine.script = by_path(
        v1_chat_completions=chat_stream(["x"]), v1_chat_completions_input_tokens={"input_tokens": counted}
    )
    host.resident = [FakeResident(model="m", child="m", ctx_tokens=4096)]
    options = {"num_ctx": num_ctx, "num_predict": limit}
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", {**WHOLE, "options": options})
    assert answer.status == status
    assert "num_ctx" not in engine.exchanges[-1].json
    if status == 400:
        assert f"num_ctx is {num_ctx}" in answer.json["error"]
        assert "4096" in answer.json["error"]


@pytest.mark.parametrize(
    "fields",
    [
        {"options": None},
        {"options": {"seed": 1.0, "temperature": 0, "stop": "x", "num_gpu": 99, "what": 1}},
        {"format": None},
        {"format": ""},
        {"tools": []},
        {"tools": None},
        {"keep_alive": None},
        {"think": None},
        {"stream": None},
        {"truncate": True, "shift": False, "unknown": {"x": 1}},
    ],
    ids=json.dumps,
)
async def test_nulls_and_loose_types_are_taken(host: ReadyHost, fields: dict[str, Any]) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", {**CHAT, **fields})
    assert answer.status == 200


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"model": None}, 400, "model is required"),
        ({"model": "nobody"}, 404, "model 'nobody' not found"),
        ({"options": {"temperature": "hot"}}, 400, 'option "temperature" must be of type float32'),
        ({"format": 5}, 400, "invalid format"),
        ({"think": "very"}, 400, "invalid think value"),
        ({"messages": [{"role": "what"}]}, 400, "role"),
    ],
)
async def test_refusals_are_strings(host: ReadyHost, fields: dict[str, Any], status: int, says: str) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", {**CHAT, **fields})
    assert answer.status == status
    assert says in answer.json["error"]


async def test_an_empty_body_is_refused_in_ollamas_words(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "POST", "/api/chat", b"")
    assert answer.status == 400
    assert answer.json["error"].startswith("missing request body")


async def test_usage_of_a_stream_is_counted(host: ReadyHost, engine: ScriptedEngine) -> None:
    engine.script = says(chat_frame({"content": "x"}), chat_frame({}, finish="stop"), usage_frame(7, 5), done_frame())
    async with serve(host) as served:
        await fetch(served.port, "POST", "/api/chat", CHAT)
        assert (served.gateway.traffic.prompt_tokens, served.gateway.traffic.completion_tokens) == (7, 5)

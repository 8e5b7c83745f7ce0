"""What went wrong elsewhere, in all four dialects: streams, tools, reasoning. The numbers are those of the cases."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from blazar_gateway.testing import (
    Answer,
    Exchange,
    FixedCatalogue,
    LoadingHost,
    PlainSettings,
    RawClient,
    ReadyHost,
    ScriptedEngine,
    card,
    chat_frame,
    chat_stream,
    done_frame,
    error_frame,
    fetch,
    serve,
)
from blazar_gateway.testing import transcripts as seen
from blazar_gateway.testing.frames import usage_frame
from blazar_gateway.testing.transcripts import Said

HI = [{"role": "user", "content": "hi"}]
TOOLS = ("completion", "tools", "thinking")


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API as its clients see it.

    Attributes:
        path: Where it is asked.
        body: What is asked, but for the model.
        stream: Reads a stream by the rules, and says what was said.
        whole: Reads an answer in one piece.
        finishes: The words for the ends of an answer: by itself, at the limit, with calls.
        broken: Returns the text of an error, from the last event of a stream that broke.
    """

    path: str
    body: dict[str, Any]
    stream: Callable[[bytes], Said]
    whole: Callable[[Any], Said]
    finishes: tuple[str, str, str]
    broken: Callable[[bytes], str]


def _last_chunk(body: bytes) -> str:
    assert b'"finish_reason":"' not in body
    assert b"[DONE]" not in body or body.endswith(b"data: [DONE]\n\n")
    frame = next(frame for frame in reversed(body.split(b"\n\n")) if frame.startswith(b"data: {"))
    return str(json.loads(frame[6:])["error"]["message"])


def _last_event(body: bytes) -> str:
    events = seen.named_events(body)
    assert not {"message_stop", "message_delta"} & {event["type"] for event in events}
    assert events[-1]["type"] == "error"
    return str(events[-1]["error"]["message"])


def _last_response(body: bytes) -> str:
    events = seen.named_events(b"".join(f + b"\n\n" for f in body.split(b"\n\n") if f and not f.startswith(b":")))
    assert "response.completed" not in {event["type"] for event in events}
    assert events[-1]["type"] == "response.failed"
    return str(events[-1]["response"]["error"]["message"])


def _last_line(body: bytes) -> str:
    lines = seen.lines_of(body)
    assert not any(line.get("done") for line in lines)
    return str(lines[-1]["error"])


def _without_comments(body: bytes) -> bytes:
    return b"".join(frame + b"\n\n" for frame in body.split(b"\n\n") if frame and not frame.startswith(b":"))


DIALECTS = {
    "openai": Dialect(
        "/v1/chat/completions",
        {"messages": HI},
        seen.chat_chunks,
        seen.chat_answer,
        ("stop", "length", "tool_calls"),
        _last_chunk,
    ),
    "responses": Dialect(
        "/v1/responses",
        {"input": "hi"},
        lambda body: seen.response_said(seen.named_events(_without_comments(body))),
        seen.response_answer,
        ("completed", "incomplete", "completed"),
        _last_response,
    ),
    "anthropic": Dialect(
        "/v1/messages",
        {"messages": HI, "max_tokens": 64, "thinking": {"type": "adaptive"}},
        lambda body: seen.message_said(seen.named_events(_without_comments(body))),
        seen.message_answer,
        ("end_turn", "max_tokens", "tool_use"),
        _last_event,
    ),
    "ollama": Dialect(
        "/api/chat",
        {"messages": HI},
        lambda body: seen.chat_lines(seen.lines_of(body)),
        lambda answer: seen.chat_lines([answer]),
        ("stop", "length", "stop"),
        _last_line,
    ),
}
every_dialect = pytest.mark.parametrize("dialect", [pytest.param(made, id=name) for name, made in DIALECTS.items()])
ROW = FixedCatalogue(card(capabilities=TOOLS))


async def ask(port: int, dialect: Dialect, *, stream: bool, **fields: Any) -> Answer:
    return await fetch(port, "POST", dialect.path, {"model": "m", "stream": stream, **dialect.body, **fields})


async def said(host: ReadyHost, dialect: Dialect, *, stream: bool, **fields: Any) -> Said:
    """Return what is said to one request, which has to succeed."""
    async with serve(host, catalogue=ROW) as served:
        answer = await ask(served.port, dialect, stream=stream, **fields)
    assert answer.status == 200, answer.body
    return dialect.stream(answer.body) if stream else dialect.whole(answer.json)


def says(*frames: bytes) -> Callable[[Exchange], Any]:
    async def script(exchange: Exchange) -> None:
        await exchange.stream(frames)

    return script


# --- BC-01 -----------------------------------------------------------------------------------------------------------

TEXT = "é€😀"
SHORT = (
    b'data: {"choices":[{"index":0,"delta":{"content":"' + TEXT.encode() + b'"},"finish_reason":null}],"id":"c",'
    b'"created":1,"model":"m","object":"chat.completion.chunk"}\n\n'
    b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"id":"c","created":1,"model":"m",'
    b'"object":"chat.completion.chunk"}\n\ndata: [DONE]\n\n'
)


@every_dialect
async def test_bc_01_a_character_cut_at_any_byte_arrives_whole(
    host: ReadyHost, engine: ScriptedEngine, dialect: Dialect
) -> None:
    async with serve(host, catalogue=ROW) as served, RawClient(served.port) as client:

        async def told(*pieces: bytes) -> Said:
            engine.script = says(*pieces)
            await client.post(dialect.path, {"model": "m", "stream": True, **dialect.body})
            return dialect.stream((await client.answer()).body)

        uncut = await told(SHORT)
        assert uncut.text == TEXT
        for cut in range(1, len(SHORT)):
            assert await told(SHORT[:cut], SHORT[cut:]) == uncut, f"cut at {cut}"
        assert await told(*(SHORT[at : at + 1] for at in range(len(SHORT)))) == uncut


@every_dialect
async def test_bc_01_bytes_that_are_no_character_do_not_break_the_stream(
    host: ReadyHost, engine: ScriptedEngine, dialect: Dialect
) -> None:
    broken = SHORT.replace(TEXT.encode(), b"a\xf0\x9f")
    engine.script = says(broken)
    async with serve(host, catalogue=ROW) as served:
        answer = await ask(served.port, dialect, stream=True)
    if dialect is DIALECTS["openai"]:
        assert b'"content":"a\xf0\x9f"' in answer.body
        assert answer.body.endswith(b"data: [DONE]\n\n")
    else:
        assert dialect.stream(answer.body).text == "a�"


# --- BC-03 -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "asked"),
    [
        ({}, False),
        ({"stream_options": None}, False),
        ({"stream_options": {}}, False),
        ({"stream_options": {"include_usage": False}}, False),
        ({"stream_options": {"include_usage": True}}, True),
    ],
)
@pytest.mark.parametrize("without_choices", [False, True])
async def test_bc_03_usage_is_told_when_asked_for_and_counted_always(
    host: ReadyHost, engine: ScriptedEngine, fields: dict[str, Any], *, asked: bool, without_choices: bool
) -> None:
    frames = chat_stream(["a", "b"], prompt_tokens=7)
    if without_choices:
        frames = b'data: {"id":"x","object":"ping"}\n\n' + frames
    engine.script = says(frames)
    async with serve(host, catalogue=ROW) as served:
        answer = await ask(served.port, DIALECTS["openai"], stream=True, **fields)
        traffic = served.gateway.traffic
        assert (traffic.prompt_tokens, traffic.completion_tokens) == (7, 2)
    seen.chat_chunks(answer.body.replace(b'data: {"id":"x","object":"ping"}\n\n', b""), usage=asked)


# --- BC-05, BC-06 ----------------------------------------------------------------------------------------------------

OVERFLOW = {
    "error": {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_prompt_tokens": 9, "n_ctx": 4}
}


@every_dialect
@pytest.mark.parametrize("stream", [False, True])
async def test_bc_05_an_engines_refusal_has_its_own_status(
    host: ReadyHost, engine: ScriptedEngine, dialect: Dialect, *, stream: bool
) -> None:
    async def refuses(exchange: Exchange) -> None:
        await exchange.answer(json.dumps(OVERFLOW).encode(), status=400)

    engine.script = refuses
    async with serve(host, catalogue=ROW) as served:
        answer = await ask(served.port, dialect, stream=stream)
    assert answer.status == 400
    assert answer.headers["content-type"].startswith("application/json")
    error = answer.json["error"]
    assert "prompt is too long: 9 tokens" in str(error if isinstance(error, str) else error["message"])


@pytest.mark.parametrize("name", ["openai", "responses", "anthropic"])
async def test_bc_05_after_a_sign_of_life_a_refusal_is_an_event(engine: ScriptedEngine, name: str) -> None:
    dialect = DIALECTS[name]

    async def refuses(exchange: Exchange) -> None:
        await exchange.answer(json.dumps(OVERFLOW).encode(), status=400)

    engine.script = refuses
    host = LoadingHost(engine)
    settings = PlainSettings(stream_ping_secs=0.01)
    async with serve(host, catalogue=ROW, settings=settings) as served, RawClient(served.port) as client:
        await client.post(dialect.path, {"model": "m", "stream": True, **dialect.body})
        await client.read_until(b"\n\n\r\n")
        host.loaded.set()
        rest = await client.read_until(b"0\r\n\r\n")
    assert b"prompt is too long: 9 tokens" in rest
    assert not any(mark in rest for mark in (b"message_stop", b"response.completed", b'"finish_reason":"'))


async def dies(exchange: Exchange) -> None:
    await exchange.begin_stream()
    for number in range(10):
        await exchange.chunk(chat_frame({"content": f"{number} "}))
    exchange.die()


def dies_when(told: asyncio.Event) -> Callable[[Exchange], Any]:
    """Return a script that dies once the client has what was written: a reset may overtake it otherwise."""

    async def script(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for number in range(10):
            await exchange.chunk(chat_frame({"content": f"{number} "}))
        await told.wait()
        exchange.die()

    return script


def dechunked(raw: bytes) -> bytes:
    """Return the body of a chunked answer."""
    out, rest = b"", raw.partition(b"\r\n\r\n")[2]
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        out, rest = out + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return out


async def hangs_up(exchange: Exchange) -> None:
    await exchange.stream([chat_frame({"content": f"{number} "}) for number in range(10)])


async def reports(exchange: Exchange) -> None:
    frames = [chat_frame({"content": f"{number} "}) for number in range(10)]
    await exchange.stream([*frames, error_frame("Context size has been exceeded.")])


@every_dialect
@pytest.mark.parametrize("script", [dies, hangs_up, reports])
async def test_bc_06_death_in_the_middle_never_looks_like_success(
    host: ReadyHost, engine: ScriptedEngine, dialect: Dialect, script: Any
) -> None:
    told = asyncio.Event()
    engine.script = dies_when(told) if script is dies else script
    async with serve(host, catalogue=ROW) as served, RawClient(served.port) as client:
        await client.post(dialect.path, {"model": "m", "stream": True, **dialect.body})
        raw = await client.read_until(b"9 ")
        told.set()
        raw += await client.read_until(b"\r\n0\r\n\r\n")
        assert served.gateway.traffic.completion_tokens >= 8
    assert dialect.broken(dechunked(raw))


@every_dialect
@pytest.mark.parametrize("script", [dies, hangs_up, reports])
async def test_bc_06_half_an_answer_is_no_answer(
    host: ReadyHost, engine: ScriptedEngine, dialect: Dialect, script: Any
) -> None:
    engine.script = script
    async with serve(host, catalogue=ROW) as served:
        answer = await ask(served.port, dialect, stream=False)
    assert answer.status >= 500
    assert "error" in answer.json


# --- BC-07, BC-08 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["openai", "responses", "anthropic"])
async def test_bc_07_signs_of_life_while_the_model_loads_and_the_engine_is_silent(
    engine: ScriptedEngine, name: str
) -> None:
    dialect, said_more = DIALECTS[name], asyncio.Event()

    async def thinks_long(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await said_more.wait()
        await exchange.chunk(chat_stream(["Hi"]))
        await exchange.end_stream()

    engine.script = thinks_long
    host = LoadingHost(engine)
    settings = PlainSettings(stream_ping_secs=0.01)
    async with serve(host, catalogue=ROW, settings=settings) as served, RawClient(served.port) as client:
        await client.post(dialect.path, {"model": "m", "stream": True, **dialect.body})
        sign = b"event: ping" if name == "anthropic" else b"\n: "
        await client.read_until(sign)
        host.loaded.set()
        await engine.arrived(1)
        for _ in range(3):
            await client.read_until(sign)
        said_more.set()
        await client.read_until(b"0\r\n\r\n")
        assert served.gateway.traffic.completion_tokens == 1


@pytest.mark.parametrize(("name", "stream"), [*((name, False) for name in DIALECTS), ("ollama", True)])
async def test_bc_07_no_sign_of_life_where_a_client_would_stumble(
    engine: ScriptedEngine, name: str, *, stream: bool
) -> None:
    dialect = DIALECTS[name]
    silent = asyncio.Event()

    async def thinks_long(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await silent.wait()
        await exchange.chunk(chat_stream(["Hi"]))
        await exchange.end_stream()

    engine.script = thinks_long
    settings = PlainSettings(stream_ping_secs=0.005)
    async with serve(ReadyHost(engine), catalogue=ROW, settings=settings) as served, RawClient(served.port) as client:
        await client.post(dialect.path, {"model": "m", "stream": stream, **dialect.body})
        await engine.arrived(1)
        # What would be a dozen intervals elsewhere.
        await asyncio.sleep(0.06)
        silent.set()
        answer = await client.answer()
    found = dialect.stream(answer.body) if stream else dialect.whole(answer.json)
    assert found.text == "Hi"


@every_dialect
async def test_bc_08_a_chunk_leaves_before_the_next_comes(
    host: ReadyHost, engine: ScriptedEngine, dialect: Dialect
) -> None:
    first_was_read = asyncio.Event()

    async def waits_for_the_reader(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(chat_frame({"content": "first"}))
        await first_was_read.wait()
        await exchange.chunk(chat_stream([" second"]))
        await exchange.end_stream()

    engine.script = waits_for_the_reader
    async with serve(host, catalogue=ROW) as served, RawClient(served.port) as client:
        await client.post(dialect.path, {"model": "m", "stream": True, **dialect.body})
        head = await client.read_until(b"first")
        first_was_read.set()
        await client.read_until(b"0\r\n\r\n")
    if dialect is not DIALECTS["ollama"]:
        assert b"text/event-stream" in head
    assert b"no-cache" in head
    assert b"X-Accel-Buffering: no" in head
    assert b"Content-Encoding" not in head


# --- BC-09, BC-11 ----------------------------------------------------------------------------------------------------


def call(name: str, arguments: Any, *, id_: str | None = None, index: int = 0) -> dict[str, Any]:
    made: dict[str, Any] = {"index": index, "function": {"name": name, "arguments": arguments}}
    return made if id_ is None else {**made, "id": id_, "type": "function"}


def calling(*calls: dict[str, Any], finish: str) -> Callable[[Exchange], Any]:
    """Return a script that makes calls, in a stream or in one piece as it is asked."""
    frames = [chat_frame({"tool_calls": [one]}) for one in calls]
    return says(*frames, chat_frame({}, finish=finish), usage_frame(5, 3), done_frame())


CALLS = [
    pytest.param(
        [call("f", '{"n":0}', id_="a"), call("f", '{"n":1}', id_="b"), call("g", "{}", id_="c")], id="index-0"
    ),
    pytest.param([call("f", '{"n":0}'), call("f", '{"n":1}'), call("g", "{}")], id="index-0-and-no-ids"),
    pytest.param([call("f", {"n": 0}), call("f", {"n": 1}), call("g", {})], id="arguments-as-objects"),
    pytest.param(
        [call("f", '{"n":', id_="a"), call("f", "0}", id_="a"), call("f", '{"n":1}', id_="b"), call("g", "", id_="c")],
        id="ids-repeated",
    ),
    pytest.param(
        [call("f", '{"n":0}', index=3), call("f", '{"n":1}', index=5), call("g", "{}", index=9)], id="indices-with-gaps"
    ),
]


@every_dialect
@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("finish", ["tool_calls", "stop"])
@pytest.mark.parametrize("stream", [False, True])
async def test_bc_09_and_11_calls_stay_apart_and_the_turn_ends_with_them(
    host: ReadyHost, engine: ScriptedEngine, dialect: Dialect, calls: list[Any], finish: str, *, stream: bool
) -> None:
    engine.script = calling(*calls, finish=finish)
    found = await said(host, dialect, stream=stream)
    assert found.calls == [("f", {"n": 0}), ("f", {"n": 1}), ("g", {})]
    assert found.finish == dialect.finishes[2]


@every_dialect
async def test_bc_11_a_turn_that_was_cut_stays_cut(host: ReadyHost, engine: ScriptedEngine, dialect: Dialect) -> None:
    engine.script = calling(call("f", "{}", id_="a"), finish="length")
    assert (await said(host, dialect, stream=True)).finish == dialect.finishes[1]


# --- BC-14 -----------------------------------------------------------------------------------------------------------


FUNCTION = {"name": "f", "parameters": {"type": "object", "properties": {}}}
NESTED = {"type": "function", "function": FUNCTION}
TOOL_OF = {
    "/v1/chat/completions": NESTED,
    "/v1/responses": {"type": "function", **FUNCTION},
    "/v1/messages": {"name": "f", "input_schema": {"type": "object"}},
    "/api/chat": NESTED,
}


@every_dialect
@pytest.mark.parametrize("stream", [False, True])
async def test_bc_14_tools_without_a_place_in_the_template_are_refused(
    host: ReadyHost, dialect: Dialect, *, stream: bool
) -> None:
    rows = FixedCatalogue(card(capabilities=("completion",)))
    async with serve(host, catalogue=rows) as served:
        answer = await ask(served.port, dialect, stream=stream, tools=[TOOL_OF[dialect.path]])
        plain = await ask(served.port, dialect, stream=False, tools=[])
    assert answer.status == 400
    assert b"does not support tools: its chat template has no place for them" in answer.body
    assert b"chat_template_file" in answer.body
    assert plain.status == 200


@every_dialect
@pytest.mark.parametrize(
    "known",
    [
        pytest.param({"capabilities": ("completion", "tools")}, id="a place"),
        pytest.param({"capabilities": ("completion",), "template_readable": False}, id="unreadable"),
    ],
)
async def test_bc_14_tools_are_forwarded(
    host: ReadyHost, engine: ScriptedEngine, dialect: Dialect, known: dict[str, Any]
) -> None:
    async with serve(host, catalogue=FixedCatalogue(card(**known))) as served:
        answer = await ask(served.port, dialect, stream=False, tools=[TOOL_OF[dialect.path]])
    assert answer.status == 200
    sent: Any = engine.exchanges[-1].json
    assert sent["tools"][0]["function"]["name"] == "f"


async def test_bc_14_tools_that_must_not_be_used_are_no_reason(host: ReadyHost) -> None:
    rows = FixedCatalogue(card(capabilities=("completion",)))
    async with serve(host, catalogue=rows) as served:
        answer = await ask(served.port, DIALECTS["openai"], stream=False, tools=[NESTED], tool_choice="none")
    assert answer.status == 200


# --- BC-17 -----------------------------------------------------------------------------------------------------------


@every_dialect
@pytest.mark.parametrize(
    "deltas",
    [
        pytest.param([{"reasoning_content": "h"}, {"reasoning_content": "m"}, {"content": "Yes"}], id="llama.cpp"),
        pytest.param([{"reasoning": "hm"}, {"content": "Yes"}], id="vllm"),
        pytest.param([{"content": piece} for piece in ("<th", "ink>", "\nh", "m\n</thi", "nk>\n\n", "Yes")], id="tags"),
        pytest.param([{"content": "<think>hm</think>Yes"}], id="tags-in-one-piece"),
    ],
)
@pytest.mark.parametrize("last_with_finish", [False, True])
@pytest.mark.parametrize("stream", [False, True])
async def test_bc_17_reasoning_never_leaks_and_the_last_token_is_not_lost(
    host: ReadyHost,
    engine: ScriptedEngine,
    dialect: Dialect,
    deltas: list[dict[str, Any]],
    *,
    last_with_finish: bool,
    stream: bool,
) -> None:
    frames = [chat_frame(delta) for delta in deltas]
    last = {"content": "!"} if last_with_finish else {}
    if not last_with_finish:
        frames.append(chat_frame({"content": "!"}))
    engine.script = says(*frames, chat_frame(last, finish="stop"), usage_frame(5, 3), done_frame())
    found = await said(host, dialect, stream=stream)
    assert (found.thinking, found.text) == ("hm", "Yes!")
    assert found.finish == dialect.finishes[0]


# --- BC-46 -----------------------------------------------------------------------------------------------------------

PIECES = {
    "reasoning-only": [{"reasoning_content": "hm"}],
    "reasoning-then-text": [{"reasoning_content": "hm"}, {"content": "a"}, {"content": "b"}],
    "text-only": [{"content": "a"}, {"content": "b"}],
    "empty": [],
    "reasoning-between-the-slices-of-two-calls": [
        {"reasoning_content": "hm"},
        {"tool_calls": [call("f", '{"n":', id_="a")]},
        {"reasoning_content": " so"},
        {"tool_calls": [{"index": 0, "function": {"arguments": "0}"}}]},
        {"tool_calls": [call("g", "{}", id_="b", index=1)]},
    ],
    "text-after-a-call": [{"tool_calls": [call("f", "{}", id_="a")]}, {"content": "late"}],
}


@every_dialect
@pytest.mark.parametrize("deltas", [pytest.param(deltas, id=name) for name, deltas in PIECES.items()])
@pytest.mark.parametrize("stream", [False, True])
async def test_bc_46_pieces_of_every_kind_in_any_order_keep_the_protocols_order(
    host: ReadyHost, engine: ScriptedEngine, dialect: Dialect, deltas: list[dict[str, Any]], *, stream: bool
) -> None:
    frames = [chat_frame({"role": "assistant", "content": None}), *(chat_frame(delta) for delta in deltas)]
    engine.script = says(*frames, chat_frame({}, finish="stop"), usage_frame(5, 3), done_frame())
    found = await said(host, dialect, stream=stream)
    assert found.text == "".join(delta.get("content", "") for delta in deltas)
    assert found.thinking == "".join(delta.get("reasoning_content", "") for delta in deltas)
    expected = [one["function"]["name"] for delta in deltas for one in delta.get("tool_calls", ()) if "id" in one]
    assert [name for name, _ in found.calls] == expected

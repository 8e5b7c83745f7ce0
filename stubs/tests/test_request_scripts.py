"""What a script does to one request: content, time, the wire, the process."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blazar_stubs import StubModel, write_stub_model
from blazar_stubs.testing import Engine, Incomplete, Launched, Reply, launched, wait_until

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def model(home: Path) -> StubModel:
    return write_stub_model(home / "m.gguf", tools=True)


@pytest.fixture(scope="module")
def server(stub_engine: Engine, home: Path, model: StubModel) -> Iterator[Launched]:
    argv = ["-m", model.path, "-c", "4096", "-np", "4", "-kvu", "-a", "m", "--metrics"]
    with launched(stub_engine, home / "scripts.log", *argv) as running:
        yield running


@pytest.fixture
def mortal(stub_engine: Engine, tmp_path: Path) -> Iterator[Launched]:
    """A server that a test may kill."""
    model = write_stub_model(tmp_path / "m.gguf")
    with launched(stub_engine, tmp_path / "log", "-m", model.path, "-c", "4096") as running:
        yield running


def told(script: dict[str, Any], **body: Any) -> dict[str, Any]:
    """A chat body whose prompt carries a script."""
    content = f"please answer [[stub: {json.dumps(script)}]]"
    return {"messages": [{"role": "user", "content": content}], **body}


def streamed(server: Launched, script: dict[str, Any], **body: Any) -> Reply:
    return server.post(CHAT, told(script, stream=True, **body))


def deltas(reply: Reply) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in reply.data if chunk != "[DONE]" and chunk["choices"]]


def said(reply: Reply) -> str:
    return "".join(delta.get("content") or "" for delta in deltas(reply))


def entry_of(server: Launched) -> Any:
    return [entry for entry in server.get("/__stub__/record")["requests"] if entry["path"] == CHAT][-1]


# content ---------------------------------------------------------------------------------------------------------


def test_without_a_script_it_echoes_the_prompt_and_stops(server: Launched) -> None:
    body = {"messages": [{"role": "user", "content": "good morning"}]}
    choice = server.post(CHAT, body).json()["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("You said: good morning", "stop")


@pytest.mark.parametrize("limit", [1, 20, 256])
def test_small_limits_are_filled_exactly(server: Launched, limit: int) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": limit}
    reply = server.post(CHAT, body).json()
    assert reply["usage"]["completion_tokens"] == limit
    assert reply["choices"][0]["finish_reason"] == "length"


def test_large_limits_are_not_filled_unless_the_end_is_ignored(server: Launched) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 3000}
    assert server.post(CHAT, body).json()["choices"][0]["finish_reason"] == "stop"
    ignoring = server.post(CHAT, {**body, "ignore_eos": True}).json()
    assert ignoring["usage"]["completion_tokens"] == 3000


def test_directive_is_not_echoed(server: Launched) -> None:
    assert server.post(CHAT, told({})).json()["choices"][0]["message"]["content"] == "You said: please answer"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_text_and_reasoning(server: Launched, stream: bool) -> None:
    reply = server.post(CHAT, told({"reasoning": "let me see", "text": "Grüße 😀"}, stream=stream))
    if stream:
        assert said(reply) == "Grüße 😀"
        assert "".join(delta.get("reasoning_content", "") for delta in deltas(reply)) == "let me see"
        return
    message = reply.json()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "Grüße 😀", "reasoning_content": "let me see"}


def test_number_of_tokens(server: Launched) -> None:
    reply = server.post(CHAT, told({"n_tokens": 9})).json()
    # The end token counts, as it does upstream.
    assert reply["usage"]["completion_tokens"] == 10
    assert reply["choices"][0]["finish_reason"] == "stop"


CALLS: list[dict[str, Any]] = [
    {"name": "look", "arguments": {"a": 1}, "id": "x1"},
    {"name": "jump", "arguments": "{}", "id": "x2"},
]


def test_tool_calls_in_a_plain_answer(server: Launched) -> None:
    choice = server.post(CHAT, told({"tool_calls": CALLS})).json()["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"] == [
        {"type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}, "id": "x1"},
        {"type": "function", "function": {"name": "jump", "arguments": "{}"}, "id": "x2"},
    ]


@pytest.mark.parametrize("index", [None, 0], ids=["counted", "all-zero"])
def test_tool_calls_in_a_stream(server: Launched, index: int | None) -> None:
    calls: list[dict[str, Any]] = [{**call, **({} if index is None else {"index": index})} for call in CALLS]
    pieces = [
        delta["tool_calls"][0] for delta in deltas(streamed(server, {"tool_calls": calls})) if "tool_calls" in delta
    ]
    heads = [piece for piece in pieces if "id" in piece]
    assert [(head["index"], head["id"], head["function"]["name"]) for head in heads] == [
        (0, "x1", "look"),
        (0 if index == 0 else 1, "x2", "jump"),
    ]
    arguments = "".join(piece["function"].get("arguments", "") for piece in pieces)
    assert arguments == '{"a": 1}{}'


def test_required_tool_is_called_with_the_plainest_arguments(server: Launched) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string"}, "n": {"type": "integer"}},
        "required": ["city"],
    }
    tools = [{"type": "function", "function": {"name": "weather", "parameters": schema}}]
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": tools, "tool_choice": "required"}
    call = server.post(CHAT, body).json()["choices"][0]["message"]["tool_calls"][0]
    assert call["function"] == {"name": "weather", "arguments": '{"city": "x"}'}
    free = server.post(CHAT, {**body, "tool_choice": "auto"}).json()
    assert free["choices"][0]["finish_reason"] == "stop"


def test_tools_are_ignored_by_a_template_without_them(mortal: Launched) -> None:
    tools = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    body = {"messages": [{"role": "user", "content": "hi"}], "tools": tools, "tool_choice": "required"}
    assert mortal.post(CHAT, body).json()["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("script", "finish"),
    [
        pytest.param({"text": "a", "finish_reason": "content_filter"}, ["content_filter"], id="another"),
        pytest.param({"text": "a", "finish_reason": None}, [], id="none"),
    ],
)
def test_finish_reason(server: Launched, script: dict[str, Any], finish: list[str]) -> None:
    data = streamed(server, script).data
    assert [
        choice["finish_reason"] for chunk in data[:-1] for choice in chunk["choices"] if choice["finish_reason"]
    ] == finish


def test_usage_unasked_and_made_up(server: Launched) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 11, "total_tokens": 18}
    data = streamed(server, {"text": "a", "usage_always": True, "usage": usage}).data
    assert data[-2]["usage"] == usage


def test_closing_mark_can_be_left_out(server: Launched) -> None:
    assert "[DONE]" not in streamed(server, {"text": "a", "done": False}).data


def test_chunks_are_sent_as_they_are(server: Launched) -> None:
    chunks = [
        {"content": "one"},
        {"reasoning": "vllm"},
        {"tool_calls": [{"index": 3, "id": "z", "type": "function", "function": {"name": "f", "arguments": "{"}}]},
        {"null": True},
        {"comment": "still here"},
        {"json": {"object": "odd"}},
        {"raw": "data: not json\n\n"},
        {"usage": {"total_tokens": 1}},
        {"error": {"message": "boom", "code": 500}},
        {"finish_reason": "length"},
    ]
    reply = streamed(server, {"chunks": chunks})
    frames = reply.frames
    assert '"delta":{"role":"assistant","content":null}' in frames[0]
    assert '"delta":{"content":"one"}' in frames[1]
    assert '"delta":{"reasoning":"vllm"}' in frames[2]
    assert '"index":3,"id":"z"' in frames[3]
    assert frames[4:8] == ["data: null", ": still here", 'data: {"object":"odd"}', "data: not json"]
    assert json.loads(frames[8][6:])["choices"] == []
    assert frames[9] == 'data: {"error":{"message":"boom","code":500}}'
    assert '"finish_reason":"length"' in frames[10]
    assert frames[11] == "data: [DONE]"


def test_plain_answer_is_assembled_from_chunks(server: Launched) -> None:
    chunks = [{"content": "a"}, {"reasoning_content": "r"}, {"content": "b"}, {"finish_reason": "stop"}]
    choice = server.post(CHAT, told({"chunks": chunks})).json()["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": "ab", "reasoning_content": "r"}


@pytest.mark.parametrize(
    ("path", "body", "found"),
    [
        pytest.param("/v1/completions", {"prompt": '[[stub: {"text": "hey"}]]'}, lambda r: r["choices"][0]["text"], id="text"),
        pytest.param("/completion", {"prompt": '[[stub: {"text": "hey"}]]'}, lambda r: r["content"], id="native"),
        pytest.param(
            "/v1/responses", {"input": '[[stub: {"text": "hey"}]]'},
            lambda r: r["output"][0]["content"][0]["text"], id="responses",
        ),
        pytest.param(
            "/v1/messages", {"messages": [{"role": "user", "content": [{"type": "text", "text": '[[stub: {"text": "hey"}]]'}]}]},
            lambda r: r["content"][0]["text"], id="messages",
        ),
    ],
)  # fmt: skip
def test_directives_work_in_every_dialect(server: Launched, path: str, body: dict[str, Any], found: Any) -> None:
    assert found(server.post(path, body).json()) == "hey"


def test_calls_and_thoughts_in_the_other_dialects(server: Launched) -> None:
    script = {"reasoning": "hm", "text": "so", "tool_calls": CALLS}
    text = told(script)["messages"][0]["content"]
    items = server.post("/v1/responses", {"input": text}).json()["output"]
    assert [item["type"] for item in items] == ["reasoning", "message", "function_call", "function_call"]
    blocks = server.post("/v1/messages", told(script)).json()
    assert [block["type"] for block in blocks["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert blocks["stop_reason"] == "tool_use"
    events = server.post("/v1/messages", told(script, stream=True)).data
    starts = [
        (event["index"], event["content_block"]["type"]) for event in events if event["type"] == "content_block_start"
    ]
    assert starts == [(0, "thinking"), (1, "text"), (2, "tool_use"), (3, "tool_use")]
    assert [event["index"] for event in events if event["type"] == "content_block_stop"] == [0, 1, 2, 3]
    names = [event["type"] for event in server.post("/v1/responses", {"input": text, "stream": True}).data]
    assert "response.reasoning_text.delta" in names
    assert names.count("response.function_call_arguments.delta") >= 2


# fixed answers ---------------------------------------------------------------------------------------------------


def test_fixed_status_body_and_headers(server: Launched) -> None:
    script = {"status": 429, "body": {"error": "slow down"}, "headers": {"Retry-After": "3"}}
    reply = streamed(server, script)
    assert (reply.status, reply.json(), reply.header("Retry-After")) == (429, {"error": "slow down"}, "3")


def test_exact_slices_come_one_by_one(server: Launched) -> None:
    slices = ["data: {", {"hex": "f09f"}, {"base64": "mIA="}, '"}\n\n']
    reply = streamed(server, {"slices": slices, "slice_delay_s": 0.01})
    assert reply.header("Content-Type") == "text/event-stream"
    assert reply.pieces == [b"data: {", b"\xf0\x9f", b"\x98\x80", b'"}\n\n']


def test_raw_slices_are_everything(server: Launched) -> None:
    with server.dialog() as dialog:
        dialog.send("POST", CHAT, told({"raw": True, "slices": ["HTTP/1.1 200 OK\r\nContent-Le", "ngth: 2\r\n\r\nhi"]}))
        assert dialog.reply().body == b"hi"
        assert dialog.is_closed(within_s=30)


@pytest.mark.parametrize("cuts", [{"cut_every": 1}, {"cut_at": [7, 90, 91]}], ids=["each-byte", "offsets"])
def test_normal_body_is_cut_anew(server: Launched, cuts: dict[str, Any]) -> None:
    reply = streamed(server, {"text": "Grüße 😀", **cuts})
    assert said(reply) == "Grüße 😀"
    if "cut_every" in cuts:
        assert {len(piece) for piece in reply.pieces} == {1}
    else:
        assert [len(piece) for piece in reply.pieces][:3] == [7, 83, 1]


def test_plain_body_is_cut_too(server: Launched) -> None:
    assert (
        server.post(CHAT, told({"text": "whole", "cut_every": 7})).json()["choices"][0]["message"]["content"] == "whole"
    )


# time ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("knob", ["header_delay_s", "prefill_delay_s", "first_byte_delay_s", "token_delay_s"])
def test_delays(server: Launched, knob: str) -> None:
    with server.dialog() as dialog:
        started_s = time.monotonic()
        dialog.send("POST", CHAT, told({"text": "one two three", knob: 0.4}, stream=True))
        dialog.head()
        headers_s = time.monotonic() - started_s
        dialog.chunk()
        first_s = time.monotonic() - started_s
        rest = b"".join(dialog.chunks())
        total_s = time.monotonic() - started_s
    assert rest.endswith(b"data: [DONE]\n\n")
    waits = {"header_delay_s": headers_s, "prefill_delay_s": first_s, "first_byte_delay_s": first_s}
    assert waits.get(knob, total_s) >= 0.4


@pytest.mark.parametrize("progress", [True, False], ids=["shown", "hidden"])
def test_progress_of_a_long_prompt_shows_in_the_slots(server: Launched, progress: bool) -> None:
    script = {"prefill_delay_s": 1.0, "progress": progress, "text": "x"}
    with server.dialog() as dialog:
        dialog.send("POST", CHAT, {**told(script, cache_prompt=False), "id_slot": 1})
        seen: set[int] = set()
        while not seen or server.get("/slots")[1]["is_processing"]:
            seen.add(server.get("/slots")[1].get("n_prompt_tokens_processed", 0))
        dialog.reply()
    assert (len(seen - {0}) > 1) is progress


# the wire --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fin", "rst"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_connection_breaks_after_bytes(server: Launched, stream: bool, mode: str) -> None:
    with server.dialog() as dialog:
        dialog.send("POST", CHAT, told({"close_after_bytes": 40, "close_mode": mode}, stream=stream))
        with pytest.raises((Incomplete, ConnectionError)):
            dialog.reply()
    wait_until(lambda: entry_of(server)["finished_at"], "it is over")
    assert entry_of(server)["bytes_sent"] == 40
    assert not server.busy


def test_connection_breaks_after_tokens(server: Launched) -> None:
    with server.dialog() as dialog:
        dialog.send("POST", CHAT, told({"close_after_tokens": 3, "n_tokens": 50}, stream=True))
        dialog.head()
        pieces = []
        with pytest.raises((Incomplete, ConnectionError)):
            pieces += list(dialog.chunks())
    wait_until(lambda: not server.busy, "slots are idle")
    assert entry_of(server)["tokens_sent"] == 3


@pytest.mark.parametrize(
    "script", [{"never_answer": True}, {"hang_after_tokens": 2, "n_tokens": 50}], ids=["never", "later"]
)
def test_silence_lasts_until_the_client_leaves(server: Launched, script: dict[str, Any]) -> None:
    with server.dialog() as dialog:
        dialog.send("POST", CHAT, told(script, stream=True))
        wait_until(lambda: server.get("/__stub__/record")["in_flight"] == 1, "it is in flight")
        if "hang_after_tokens" in script:
            dialog.head()
            for _ in range(2):
                dialog.chunk()
        assert not dialog.is_closed(within_s=0.5)
    wait_until(lambda: entry_of(server)["client_closed_at"], "it saw the client leave")


# the process -----------------------------------------------------------------------------------------------------


def test_process_exits_after_tokens(mortal: Launched) -> None:
    with mortal.dialog() as dialog:
        dialog.send("POST", CHAT, told({"exit_after_tokens": 3, "exit_code": 7, "n_tokens": 50}, stream=True))
        dialog.head()
        with pytest.raises((Incomplete, ConnectionError)):
            list(dialog.chunks())
    assert mortal.exit_code() == 7


def test_process_dies_by_a_signal(mortal: Launched) -> None:
    with mortal.dialog() as dialog:
        dialog.send("POST", CHAT, told({"exit_after_tokens": 1, "signal": "SIGSEGV"}))
        assert dialog.is_closed(within_s=60)
    assert mortal.exit_code() == -signal.SIGSEGV


def test_fragile_engine_exits_when_a_client_leaves(mortal: Launched) -> None:
    with mortal.dialog() as dialog:
        script = {"exit_on_disconnect": 9, "n_tokens": 5000, "token_delay_s": 0.01}
        dialog.send("POST", CHAT, told(script, stream=True))
        dialog.head()
        dialog.chunk()
    assert mortal.exit_code() == 9


# where scripts come from -----------------------------------------------------------------------------------------


def test_pushed_scripts_serve_once_in_order(server: Launched) -> None:
    server.post("/__stub__/script", [{"text": "first"}, {"text": "second"}, {"text": "mine", "match": "needle"}])
    body = {"messages": [{"role": "user", "content": "hay"}]}
    needle = {"messages": [{"role": "user", "content": "a needle"}]}

    def answer(asked: dict[str, Any]) -> str:
        content: str = server.post(CHAT, asked).json()["choices"][0]["message"]["content"]
        return content

    assert [answer(body), answer(body), answer(body)] == ["first", "second", "You said: hay"]
    assert [answer(needle), answer(needle)] == ["mine", "You said: a needle"]


def test_sidecar_is_read_again_when_it_changes(server: Launched, model: StubModel) -> None:
    body = {"messages": [{"role": "user", "content": "tea"}]}
    model.script(requests=[{"match": "tea", "text": "milk?", "times": 2}], defaults={"usage_always": True})
    answers = [server.post(CHAT, body).json()["choices"][0]["message"]["content"] for _ in range(3)]
    assert answers == ["milk?", "milk?", "You said: tea"]
    assert "usage" in server.post(CHAT, {**body, "stream": True}).data[-2]
    model.script()
    assert "usage" not in server.post(CHAT, {**body, "stream": True}).data[-2]


def test_other_paths_are_scripted_by_name(server: Launched) -> None:
    server.post("/__stub__/script", {"path": "/props", "status": 500, "body": {"no": "props"}})
    assert server.get("/health") == {"status": "ok"}
    assert server.get("/props") == {"no": "props"}
    assert server.get("/props")["total_slots"] == 4


def test_unknown_knob_is_refused_with_the_known_ones(server: Launched) -> None:
    for reply in (server.post(CHAT, told({"txet": "x"})), server.post("/__stub__/script", {"txet": "x"})):
        assert reply.status == 500
        message = reply.json()["error"]["message"]
        assert "no knob is called 'txet'" in message
        assert "prefill_delay_s" in message


# records ---------------------------------------------------------------------------------------------------------


def test_record_holds_raw_headers_body_and_counts(server: Launched) -> None:
    body = told({"text": "a b c"}, stream=True)
    server.request("POST", CHAT, body, {"X-Odd": "1", "X-odd": "2"})
    entry = entry_of(server)
    assert entry["path"] == CHAT
    assert [pair for pair in entry["headers"] if pair[0].lower() == "x-odd"] == [["X-Odd", "1"], ["X-odd", "2"]]
    assert json.loads(entry["body"]) == body
    assert (entry["status"], entry["tokens_sent"]) == (200, 3)
    assert entry["received_at"] <= entry["first_byte_at"] <= entry["finished_at"]


def test_control_calls_are_not_recorded(server: Launched) -> None:
    server.request("DELETE", "/__stub__/record")
    assert server.get("/__stub__/record")["requests"] == []


def test_events_lie_beside_the_model(server: Launched, model: StubModel) -> None:
    server.post(CHAT, told({"text": "logged"}))
    assert model.spawns == 1
    assert "logged" in model.requests(CHAT)[-1]["body"]
    assert model.events("ready")[0]["address"] == f"http://127.0.0.1:{server.address[1]}"
    assert "PATH" in model.events("spawn")[0]["environ"]
    assert model.events("spawn")[0]["argv"][1:3] == ["-m", str(model.path)]

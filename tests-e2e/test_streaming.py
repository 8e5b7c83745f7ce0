"""A stream comes through as the engine wrote it: every byte, at once, and an unhappy end is told as one."""

import json
import threading
from typing import Any

import pytest

from blazar_stubs import StubModel
from e2e.http import TIMEOUT_S, Answer, chat_body, content_of, decode_events
from e2e.served import Served
from e2e.waiting import eventually

TEXT = "a smile \U0001f600, an \u00e9 and a \u20ac sign"
"""One four-byte, one two-byte and one three-byte character."""


@pytest.fixture(scope="module")
def model(shared: Served) -> StubModel:
    return shared.add_model("m", thinking=True)


def scripted(**script: Any) -> str:
    """Return a prompt that tells the stub what to answer."""
    return f"[[stub: {json.dumps(script)}]]"


def streamed(shared: Served, script: dict[str, Any], **fields: Any) -> Answer:
    return shared.client.chat("m", scripted(**script), stream=True, **fields)


# Cut anywhere


@pytest.mark.promise("stream:cut-anywhere")
def test_bytes_cut_at_every_offset_are_the_same_text_and_events(shared: Served, model: StubModel) -> None:
    whole = streamed(shared, {"text": TEXT})
    assert whole.content() == TEXT
    # The offsets around the text are what matters; ids and times in the frames make the length vary a little.
    for offset in range(0, len(whole.body), 7):
        answer = streamed(shared, {"text": TEXT, "cut_at": [offset]})
        assert answer.content() == TEXT, offset
        assert len(answer.events()) == len(whole.events()), offset


@pytest.mark.promise("stream:cut-anywhere")
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_few_bytes_a_write_are_the_same_text_and_events(shared: Served, model: StubModel, size: int) -> None:
    whole = streamed(shared, {"text": TEXT})
    answer = streamed(shared, {"text": TEXT, "cut_every": size})
    assert answer.content() == TEXT
    assert len(answer.events()) == len(whole.events())


@pytest.mark.promise("stream:cut-anywhere")
def test_the_whole_answer_of_a_cut_stream_is_the_same_text(shared: Served, model: StubModel) -> None:
    answer = shared.client.chat("m", scripted(text=TEXT, cut_every=1))
    assert answer.status == 200
    assert answer.content() == TEXT


@pytest.mark.promise("stream:verbatim")
def test_bytes_that_are_no_text_come_through_unchanged(shared: Served, model: StubModel) -> None:
    frame = b'data: {"choices":[{"index":0,"delta":{"content":"\xf0\x9f"}}]}\n\n'
    slices = [{"hex": piece.hex()} for piece in (frame[:40], frame[40:], b"data: [DONE]\n\n")]
    answer = streamed(shared, {"slices": slices})
    assert frame in answer.body
    assert answer.body.endswith(b"data: [DONE]\n\n")


# Usage


@pytest.mark.promise("stream:usage-when-asked")
@pytest.mark.parametrize(
    ("options", "asked"),
    [
        pytest.param({}, False, id="no stream_options"),
        pytest.param({"stream_options": None}, False, id="null"),
        pytest.param({"stream_options": {}}, False, id="empty"),
        pytest.param({"stream_options": {"include_usage": False}}, False, id="false"),
        pytest.param({"stream_options": {"include_usage": True}}, True, id="true"),
    ],
)
def test_the_usage_frame_comes_exactly_when_it_was_asked_for(
    shared: Served, model: StubModel, options: dict[str, Any], asked: bool
) -> None:
    answer = streamed(shared, {"text": "one two", "usage_always": True}, **options)
    *events, done = answer.events()
    assert done == "[DONE]"
    with_usage = [event for event in events if event.get("usage")]
    assert len(with_usage) == (1 if asked else 0)
    if asked:
        assert with_usage == [events[-1]]
        assert with_usage[0]["choices"] == []
        assert with_usage[0]["usage"]["completion_tokens"] > 0
    # Asked or not, the engine always is: the gateway counts tokens in every case.
    sent = json.loads(model.requests("/v1/chat/completions")[-1]["body"])
    assert sent["stream_options"]["include_usage"] is True


@pytest.mark.promise("stream:usage-when-asked")
def test_a_frame_without_choices_does_no_harm(shared: Served, model: StubModel) -> None:
    bare = {"json": {"object": "chat.completion.chunk", "model": "m"}}
    chunks = [{"content": "a"}, bare, {"null": True}, {"content": "b"}, {"finish_reason": "stop"}]
    assert streamed(shared, {"chunks": chunks}).content() == "ab"
    assert shared.client.chat("m", scripted(chunks=chunks)).content() == "ab"


# An unhappy end


@pytest.mark.promise("stream:death-is-no-success")
@pytest.mark.parametrize(
    "script",
    [
        pytest.param({"n_tokens": 30, "close_after_tokens": 10}, id="the connection closes"),
        pytest.param({"n_tokens": 30, "close_after_tokens": 10, "close_mode": "rst"}, id="the connection is reset"),
        pytest.param({"n_tokens": 30, "exit_after_tokens": 10, "exit_code": 1}, id="the process exits"),
        pytest.param({"n_tokens": 30, "exit_after_tokens": 10, "signal": "SIGKILL"}, id="the process is killed"),
    ],
)
def test_an_engine_that_dies_in_mid_stream_ends_in_an_error_event(served: Served, script: dict[str, Any]) -> None:
    served.add_model("m")
    answer = served.client.chat("m", scripted(**script), stream=True)
    assert answer.status == 200
    events = answer.events()
    assert "[DONE]" not in events
    assert not any(choice.get("finish_reason") for event in events for choice in event.get("choices") or [])
    error = events[-1]["error"]
    assert error["code"] in {"engine_crashed", "engine_unreachable"}
    assert "incomplete" in error["message"]
    # What had arrived is not lost, and the lease came back.
    assert content_of(events)
    eventually(lambda: served.client.chat("m").status == 200, what="the model answers again")
    assert [resident["name"] for resident in served.daemon.residents()]


@pytest.mark.promise("stream:death-is-no-success")
def test_an_engine_that_dies_in_a_whole_answer_is_a_502_that_says_so(served: Served) -> None:
    served.add_model("m")
    answer = served.client.chat("m", scripted(n_tokens=30, exit_after_tokens=10, exit_code=1))
    assert answer.status == 502
    assert answer.json()["error"]["code"] == "engine_crashed"
    assert "blazar logs m" in answer.json()["error"]["message"]


@pytest.mark.promise("stream:death-is-no-success")
def test_an_error_in_the_stream_is_handed_on_and_nothing_follows_it(shared: Served, model: StubModel) -> None:
    failure = {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}
    chunks = [{"content": "a"}, failure]
    # As llama-server does it: the error is the last frame, without a finish and without an end marker.
    script = {"chunks": chunks, "finish_reason": None, "done": False}
    events = streamed(shared, script).events()
    assert "Context size has been exceeded." in events[-1]["error"]["message"]
    assert "[DONE]" not in events
    whole = shared.client.chat("m", scripted(**script))
    assert whole.status == 500
    assert "Context size has been exceeded." in whole.json()["error"]["message"]


@pytest.mark.promise("stream:refusal-keeps-its-status")
def test_a_refusal_before_the_first_event_keeps_its_status(shared: Served, model: StubModel) -> None:
    message = "request (6024 tokens) exceeds the available context size (2048 tokens), try increasing it"
    body = {
        "error": {
            "code": 400,
            "message": message,
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 6024,
            "n_ctx": 2048,
        }
    }
    for stream in (False, True):
        answer = shared.client.chat("m", scripted(status=400, body=body), stream=stream)
        assert answer.status == 400
        assert (answer.header("content-type") or "").startswith("application/json")
        assert "6024" in answer.json()["error"]["message"]


# Nothing waits


@pytest.mark.promise("stream:no-timer")
def test_each_frame_reaches_the_client_before_the_engine_writes_the_next(shared: Served, model: StubModel) -> None:
    # The engine hangs after three tokens: whatever waited for more would wait for ever.
    prompt = scripted(n_tokens=30, hang_after_tokens=3)
    with shared.client.open("POST", "/v1/chat/completions", chat_body("m", prompt, stream=True)) as response:
        received = b""
        while len([event for event in _whole_events(received) if _has_content(event)]) < 3:
            piece = response.read1(65536)
            assert piece, received
            received += piece
    eventually(lambda: model.events("client_closed"), what="the engine sees that the client has gone")


def _whole_events(received: bytes) -> list[Any]:
    return decode_events(received[: received.rfind(b"\n\n") + 2])


def _has_content(event: Any) -> bool:
    return isinstance(event, dict) and bool(content_of([event]))


@pytest.mark.promise("stream:no-timer")
def test_streams_are_marked_not_to_be_collected_on_the_way(shared: Served, model: StubModel) -> None:
    answer = streamed(shared, {"text": "hi"})
    assert (answer.header("content-type") or "").startswith("text/event-stream")
    assert answer.header("x-accel-buffering") == "no"
    assert "no-cache" in (answer.header("cache-control") or "")
    assert answer.header("content-encoding") is None


@pytest.mark.promise("stream:comments-while-waiting")
def test_a_stream_that_waits_for_its_model_gets_comments(served: Served) -> None:
    served.add_model("slow", script={"load_delay_s": 3})
    answer = served.client.chat("slow", stream=True)
    head, _, _ = answer.body.partition(b"data: ")
    assert head.startswith(b": ")
    assert b"loading" in head
    assert answer.events()[-1] == "[DONE]"


@pytest.mark.promise("stream:comments-while-waiting")
def test_an_answer_that_does_not_stream_gets_none(served: Served) -> None:
    served.add_model("slow", script={"load_delay_s": 3})
    answer = served.client.chat("slow")
    assert answer.status == 200
    assert answer.json()["object"] == "chat.completion"


# Reasoning


@pytest.mark.promise("stream:reasoning")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_comes_under_both_names_and_never_as_content(
    shared: Served, model: StubModel, field: str, stream: bool
) -> None:
    chunks = [{field: "let me "}, {field: "see"}, {"content": "4"}, {"content": "2"}, {"finish_reason": "stop"}]
    answer = shared.client.chat("m", scripted(chunks=chunks), stream=stream)
    if stream:
        deltas = [choice["delta"] for event in answer.events()[:-1] for choice in event.get("choices") or []]
    else:
        deltas = [answer.json()["choices"][0]["message"]]
    assert "".join(delta.get("content") or "" for delta in deltas) == "42"
    for name in ("reasoning_content", "reasoning"):
        assert "".join(delta.get(name) or "" for delta in deltas) == "let me see"


# A client that leaves


def is_chat(event: dict[str, Any]) -> bool:
    return bool(event["event"] == "request" and event["path"] == "/v1/chat/completions")


@pytest.mark.promise("stream:client-leaves")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_when_the_client_leaves_the_engine_is_told(served: Served, stream: bool) -> None:
    model = served.add_model("m")
    body = chat_body("m", scripted(n_tokens=2000, token_delay_s=0.05), stream=stream)
    left = threading.Event()

    def leave_when_it_runs() -> None:
        model.wait_for(lambda events: any(is_chat(event) for event in events), timeout_s=TIMEOUT_S)
        left.set()

    watcher = threading.Thread(target=leave_when_it_runs)
    watcher.start()
    raw = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}\r\n\r\n".encode()
    with served.client.send_raw(head + raw):
        assert left.wait(TIMEOUT_S)
    watcher.join()
    model.wait_for(lambda events: any(event["event"] == "client_closed" for event in events), timeout_s=TIMEOUT_S)
    eventually(lambda: served.client.chat("m").status == 200, what="the slot is free again")

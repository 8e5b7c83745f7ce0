"""llamacpp.md, section 3.3: how streams are framed; section 3.4: what a request sees that waits for a slot."""

from pathlib import Path
from typing import Any

import pytest

from blazar_stubs import StubModel
from blazar_stubs.testing import Dialog, Engine, Launched, Reply, launched, wait_until

HI = [{"role": "user", "content": "hi"}]
CHAT = "/v1/chat/completions"


def stream(server: Launched, path: str, **body: Any) -> Reply:
    """A stream of tokens that a real model without training makes too."""
    sure = {"ignore_eos": True, "temperature": 0, "stream": True}
    return server.post(path, {**sure, **body})


@pytest.mark.usefixtures("b10434")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(CHAT, {"messages": HI, "max_tokens": 2}, id="chat"),
        pytest.param("/v1/completions", {"prompt": "a", "max_tokens": 2}, id="text"),
        pytest.param("/completion", {"prompt": "a", "n_predict": 2}, id="native"),
        pytest.param("/v1/responses", {"input": "a", "max_output_tokens": 2}, id="responses"),
        pytest.param("/v1/messages", {"messages": HI, "max_tokens": 2}, id="messages"),
    ],
)
def test_stream_headers(server: Launched, path: str, body: dict[str, Any]) -> None:
    reply = stream(server, path, **body)
    assert reply.status == 200
    assert reply.headers == [
        ("Server", "llama.cpp"),
        ("Access-Control-Allow-Origin", ""),
        ("X-Accel-Buffering", "no"),
        ("Content-Type", "text/event-stream"),
        ("Transfer-Encoding", "chunked"),
        ("Keep-Alive", "timeout=5, max=100"),
    ]
    assert reply.body.endswith(b"\n\n")


def test_chat_events_come_in_order(server: Launched) -> None:
    data = stream(server, CHAT, messages=HI, max_tokens=3).data
    *chunks, done = data
    assert done == "[DONE]"
    assert [list(chunk) for chunk in chunks[:-1]] == [
        ["choices", "created", "id", "model", "system_fingerprint", "object"]
    ] * (len(chunks) - 1)
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all(chunk["object"] == "chat.completion.chunk" and chunk["model"] == "tiny" for chunk in chunks)
    first, *middle, last = (chunk["choices"][0] for chunk in chunks)
    assert first == {"finish_reason": None, "index": 0, "delta": {"role": "assistant", "content": None}}
    assert middle
    assert all(list(choice["delta"]) == ["content"] and choice["finish_reason"] is None for choice in middle)
    assert last == {"finish_reason": "length", "index": 0, "delta": {}}
    assert "timings" in chunks[-1]
    assert "usage" not in chunks[-1]


def test_usage_chunk_comes_last_when_asked_for_and_takes_the_timings(server: Launched) -> None:
    data = stream(server, CHAT, messages=HI, max_tokens=3, stream_options={"include_usage": True}).data
    finish, usage, done = data[-3:]
    assert done == "[DONE]"
    assert finish["choices"][0]["finish_reason"] == "length"
    assert "timings" not in finish
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == usage["timings"]["predicted_n"] == 3
    assert list(usage)[-2:] == ["usage", "timings"]


@pytest.mark.parametrize("options", [None, {}, {"include_usage": False}], ids=["null", "empty", "false"])
def test_no_usage_chunk_unless_asked_for(server: Launched, options: Any) -> None:
    data = stream(server, CHAT, messages=HI, max_tokens=2, stream_options=options).data
    assert not any("usage" in chunk for chunk in data[:-1])


def test_text_completion_has_usage_in_its_last_chunk_always(server: Launched) -> None:
    *chunks, last, done = stream(server, "/v1/completions", prompt="Once", max_tokens=3).data
    assert done == "[DONE]"
    assert all(chunk["choices"][0]["finish_reason"] is None and "usage" not in chunk for chunk in chunks)
    assert last["choices"] == [{"text": "", "index": 0, "logprobs": None, "finish_reason": "length"}]
    assert last["usage"]["completion_tokens"] == 3
    assert "timings" in last


def test_native_stream_ends_with_stop_true_and_no_mark(server: Launched) -> None:
    reply = stream(server, "/completion", prompt="Once", n_predict=3)
    *tokens, last = reply.data
    assert b"[DONE]" not in reply.body
    assert [event["stop"] for event in tokens] == [False] * len(tokens)
    assert [event["tokens_predicted"] for event in tokens] == list(range(1, len(tokens) + 1))
    assert list(tokens[0]) == [
        "index", "content", "tokens", "stop", "id_slot", "tokens_predicted", "tokens_evaluated",
    ]  # fmt: skip
    assert (last["stop"], last["content"], last["stop_type"], last["tokens_predicted"]) == (True, "", "limit", 3)


def test_responses_events_come_in_order_without_mark(server: Launched) -> None:
    reply = stream(server, "/v1/responses", input="hi", max_output_tokens=2)
    names = [frame.split("\n")[0].removeprefix("event: ") for frame in reply.frames]
    deltas = names.count("response.output_text.delta")
    assert deltas >= 1
    assert [name for name in names if name != "response.output_text.delta"] == [
        "response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
        "response.output_text.done", "response.content_part.done", "response.output_item.done", "response.completed",
    ]  # fmt: skip
    assert [event["type"] for event in reply.data] == names
    assert reply.data[-1]["response"]["usage"]["output_tokens"] == 2
    assert "timings" in reply.data[-1]


def test_messages_events_come_in_order(server: Launched) -> None:
    reply = stream(server, "/v1/messages", messages=HI, max_tokens=2)
    names = [frame.split("\n")[0].removeprefix("event: ") for frame in reply.frames]
    assert [name for name in names if name != "content_block_delta"] == [
        "message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop",
    ]  # fmt: skip
    assert reply.data[0]["message"]["id"].startswith("chatcmpl-")
    assert reply.data[-2] == {
        "type": "message_delta",
        "delta": {"stop_reason": "max_tokens", "stop_sequence": None},
        "usage": {"output_tokens": 2},
    }


def test_timings_per_token_sit_in_every_chunk_but_the_role(server: Launched) -> None:
    role, *chunks, _ = stream(server, CHAT, messages=HI, max_tokens=3, timings_per_token=True).data
    assert "timings" not in role
    assert [chunk["timings"]["predicted_n"] for chunk in chunks][-1] == 3
    assert [chunk["timings"]["predicted_n"] for chunk in chunks[:-1]] == list(range(1, len(chunks)))


def test_progress_chunks_come_before_the_first_token(server: Launched) -> None:
    data = stream(server, CHAT, messages=HI, max_tokens=2, return_progress=True).data
    progress = [chunk["prompt_progress"] for chunk in data[:-1] if "prompt_progress" in chunk]
    assert [list(facts) for facts in progress] == [["total", "cache", "processed", "time_ms"]] * len(progress)
    assert len(progress) == 2
    assert progress[-1]["processed"] == progress[-1]["total"]
    assert data[0]["choices"][0]["delta"] == {"role": "assistant", "content": None}
    assert data[2]["choices"][0]["delta"] == {"role": "assistant", "content": None}


def test_stream_of_several_choices_has_a_usage_chunk_each(server: Launched) -> None:
    options = {"include_usage": True}
    data = stream(server, CHAT, messages=HI, max_tokens=2, n=2, stream_options=options).data
    usages = [chunk["usage"] for chunk in data[:-1] if "usage" in chunk]
    finishes = [choice for chunk in data[:-1] for choice in chunk["choices"] if choice["finish_reason"]]
    roles = [choice["index"] for chunk in data[:-1] for choice in chunk["choices"] if "role" in choice["delta"]]
    assert [usage["completion_tokens"] for usage in usages] == [2, 2]
    assert sorted(choice["index"] for choice in finishes) == [0, 1]
    assert sorted(roles) == [0, 1]


def test_stream_of_several_prompts_holds_null_frames(server: Launched) -> None:
    data = stream(server, "/v1/completions", prompt=["Once", "Twice"], max_tokens=2).data
    assert None in data
    assert sorted(chunk["choices"][0]["index"] for chunk in data[:-1] if chunk and "usage" in chunk) == [0, 1]


def test_stop_word_is_cut_out_and_ends_the_answer(server: Launched) -> None:
    everything = stream(server, "/completion", prompt="Once", n_predict=24)
    text = "".join(event["content"] for event in everything.data)
    word = text[10:13]
    ended = stream(server, "/completion", prompt="Once", n_predict=24, stop=[word])
    assert "".join(event["content"] for event in ended.data) == text[: text.index(word)]
    assert (ended.data[-1]["stop_type"], ended.data[-1]["stopping_word"]) == ("word", word)


@pytest.fixture
def slow(engine: Engine, home: Path, tiny: StubModel) -> Any:
    """Start a server of one slot whose answers take their time: a long one lasts seconds on either engine."""

    def start(*argv: str, **knobs: Any) -> Any:
        # The real engine makes a token of this model in about a millisecond.
        tiny.script(token_delay_s=0.001, **knobs)
        log = home / f"{engine.kind}-slow.log"
        return launched(engine, log, "-m", tiny.path, "-a", "tiny", "--metrics", *argv)

    yield start
    tiny.script_path.unlink(missing_ok=True)


LONG = {"messages": HI, "max_tokens": 3000, "ignore_eos": True}


def began(server: Launched, **body: Any) -> Dialog:
    """A streaming request whose first chunk has come."""
    dialog = server.dialog()
    dialog.send("POST", CHAT, {**LONG, "stream": True, **body})
    assert dialog.head().status == 200
    dialog.chunk()
    return dialog


def test_overflow_of_a_shared_pool_ends_both_streams_with_an_error_frame(slow: Any) -> None:
    with slow("-c", "256", "-np", "2", "-kvu") as server, began(server) as one, began(server) as two:
        for dialog in (one, two):
            last = [frame for frame in b"".join(dialog.chunks()).decode().split("\n\n") if frame][-1]
            assert last == (
                'data: {"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}'
            )
        wait_until(lambda: not server.busy, "slots are idle")
        assert server.post(CHAT, {"messages": HI, "max_tokens": 2}).status == 200


def test_waiting_request_sees_nothing_until_a_slot_is_free(slow: Any) -> None:
    with slow("-c", "4096", "-np", "1") as server, began(server) as first, server.dialog() as waiting:
        waiting.send("POST", CHAT, {"messages": HI, "max_tokens": 2, "stream": True, "sse_ping_interval": 1})
        wait_until(lambda: server.metrics()["llamacpp:requests_deferred"] == 1, "the second waits")
        assert not waiting.is_closed(within_s=1.5)
        assert server.get("/health") == {"status": "ok"}
        assert server.post("/tokenize", {"content": "x"}).status == 200
        refused = server.request("GET", "/slots?fail_on_no_slot=1")
        assert (refused.status, refused.json()) == (
            503,
            {"error": {"code": 503, "message": "no slot available", "type": "unavailable_error"}},
        )
        first.close()
        waiting.socket.settimeout(60)
        assert waiting.reply().data[-1] == "[DONE]"


def test_ping_comes_after_silence(engine: Engine, home: Path, slow: Any, request: pytest.FixtureRequest) -> None:
    """Both evaluate a prompt for seconds: the stub because it is told to, the real engine because it must."""
    body = {"prompt": "word " * 250, "n_predict": 1, "stream": True, "sse_ping_interval": 1}
    if engine.kind == "stub":
        running = slow("-c", "1024", "-np", "1", defaults={"prefill_delay_s": 2.5})
    else:
        model = request.getfixturevalue("chat_model")
        argv = ["-m", model, "-c", "1024", "-np", "1", "-b", "64", "-ub", "64"]
        running = launched(engine, home / "ping.log", *argv)
    with running as server:
        reply = server.post("/completion", body)
        assert reply.pieces[0] == b":\n\n"
        assert reply.data[-1]["stop"] is True

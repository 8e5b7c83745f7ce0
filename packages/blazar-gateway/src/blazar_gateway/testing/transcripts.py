"""Reading streams as strict clients do: whole frames, and the order of events by each protocol's rules.

The checkers are state machines that raise ``AssertionError``; unit tests and tests over sockets use the same ones.
"""

import json
from dataclasses import dataclass, field
from typing import Any


def named_events(body: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream whose frames have names; each must be ``event:`` and ``data:`` of one type."""
    frames = body.split(b"\n\n")
    assert frames.pop() == b"", "the last frame is not whole"
    # Comments are passed over, as every client of event streams does.
    return [named_event(frame) for frame in frames if not frame.startswith(b":")]


def named_event(frame: bytes) -> dict[str, Any]:
    """Return one event, given with or without its end."""
    name, data = frame.removesuffix(b"\n\n").decode().split("\n")
    event = json.loads(data.removeprefix("data: "))
    assert isinstance(event, dict)
    assert name == f"event: {event['type']}"
    return event


def lines_of(body: bytes) -> list[dict[str, Any]]:
    """Return the objects of a stream of JSON lines; a blank line, which crashes clients, fails."""
    lines = body.split(b"\n")
    assert lines.pop() == b"", "the last line is not whole"
    return [json.loads(line) for line in lines]


def message_blocks(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Check the order of events by Anthropic's rules and return the assembled content blocks."""
    blocks: list[dict[str, Any]] = []
    open_index: int | None = None
    assert frames[0]["type"] == "message_start"
    for frame in frames[1:]:
        match frame["type"]:
            case "ping":
                pass
            case "content_block_start":
                assert open_index is None
                assert frame["index"] == len(blocks)
                open_index = frame["index"]
                blocks.append({**frame["content_block"], "json": ""})
            case "content_block_delta":
                assert frame["index"] == open_index
                _apply(blocks[-1], frame["delta"])
            case "content_block_stop":
                assert frame["index"] == open_index
                open_index = None
            case "message_start":
                raise AssertionError("two starts")
            case _:
                assert open_index is None
    assert [frame["type"] for frame in frames[-2:]] == ["message_delta", "message_stop"]
    return blocks


def _apply(block: dict[str, Any], delta: dict[str, Any]) -> None:
    match block["type"], delta["type"]:
        case "text", "text_delta":
            block["text"] += delta["text"]
        case "thinking", "thinking_delta":
            block["thinking"] += delta["thinking"]
        case "thinking", "signature_delta":
            block["signature"] += delta["signature"]
        case "tool_use", "input_json_delta":
            block["json"] += delta["partial_json"]
        case pair:
            raise AssertionError(f"a delta of the wrong kind: {pair}")


def response_items(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Check the rules of the event order and return the finished items."""
    assert [frame["sequence_number"] for frame in frames] == list(range(len(frames)))
    assert [frame["type"] for frame in frames[:2]] == ["response.created", "response.in_progress"]
    assert frames[0]["response"]["output"] == []
    open_items: dict[int, dict[str, Any]] = {}
    deltas: dict[str, str] = {}
    done = []
    for frame in frames[2:-1]:
        match frame["type"]:
            case "response.output_item.added":
                assert frame["output_index"] == len(open_items)
                assert frame["item"]["status"] == "in_progress"
                open_items[frame["output_index"]] = frame["item"]
            case "response.output_item.done":
                assert frame["item"]["status"] == "completed"
                assert frame["item"]["id"] == open_items[frame["output_index"]]["id"]
                done.append(frame["item"])
            case kind:
                assert frame["item_id"] == open_items[frame["output_index"]]["id"]
                if kind.endswith(".delta"):
                    deltas[frame["item_id"]] = deltas.get(frame["item_id"], "") + frame["delta"]
                elif kind in {"response.output_text.done", "response.reasoning_text.done"}:
                    assert frame["text"] == deltas[frame["item_id"]]
                elif kind == "response.function_call_arguments.done":
                    assert frame["arguments"] == (deltas.get(frame["item_id"]) or "{}")
    assert len(done) == len(open_items)
    final = frames[-1]["response"]
    assert sorted(item["id"] for item in final["output"]) == sorted(item["id"] for item in done)
    output = final["output"]
    assert isinstance(output, list)
    return output


@dataclass(slots=True)
class Said:
    """One answer, however it was told.

    Attributes:
        text: The answer.
        thinking: What was thought before.
        calls: Name and arguments (an object) of each call, in order.
        finish: The dialect's own word for why it ended.
        events: How many events it came in, comments and pings left out; 1 for an answer in one piece.
    """

    text: str = ""
    thinking: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    finish: str | None = None
    events: int = 0


def chat_chunks(body: bytes, *, usage: bool = False, index: int = 0) -> Said:
    """Check a chat stream by OpenAI's rules and return one choice of it.

    Args:
        body: All of it, comments included.
        usage: Whether usage was asked for.
        index: The choice.
    """
    frames = [frame for frame in body.split(b"\n\n") if frame and not frame.startswith(b":")]
    assert body.endswith(b"\n\n"), "the last frame is not whole"
    assert frames.pop() == b"data: [DONE]", "the end marker is missing"
    chunks = []
    for frame in frames:
        assert frame.startswith(b"data: {"), f"not a data frame: {frame!r}"
        assert b"\n" not in frame, f"more than one line: {frame!r}"
        chunks.append(json.loads(frame[6:]))
    assert all(chunk["object"] == "chat.completion.chunk" for chunk in chunks)
    # llama-server writes the time of each chunk, and its frames are passed on as they are.
    assert len({(chunk["id"], chunk["model"]) for chunk in chunks}) <= 1, "a head that changes"
    assert all(type(chunk["created"]) is int for chunk in chunks)
    if usage:
        last = chunks.pop()
        assert last["choices"] == []
        assert last["usage"]["total_tokens"] == last["usage"]["prompt_tokens"] + last["usage"]["completion_tokens"]
    assert not any(chunk.get("usage") for chunk in chunks), "usage that was not asked for, or not at the end"
    said = Said(events=len(frames))
    calls: dict[int, dict[str, str]] = {}
    for chunk in chunks:
        assert chunk["choices"], "no choices in a chunk: old clients read the first"
        for choice in chunk["choices"]:
            if choice["index"] == index:
                assert said.finish is None, "a delta after the finish"
                _add_delta(said, calls, choice["delta"])
                said.finish = choice["finish_reason"]
    assert list(calls) == list(range(len(calls))), "indices with gaps"
    assert len({call["id"] for call in calls.values()}) == len(calls), "ids that are not unique"
    said.calls = [(call["name"], json.loads(call["arguments"])) for call in calls.values()]
    assert said.finish is not None, "no finish"
    assert not calls or said.finish in {"tool_calls", "length"}
    return said


def _add_delta(said: Said, calls: dict[int, dict[str, str]], delta: dict[str, Any]) -> None:
    said.text += delta.get("content") or ""
    assert delta.get("reasoning_content") == delta.get("reasoning"), "reasoning under one name only"
    said.thinking += delta.get("reasoning_content") or ""
    for call in delta.get("tool_calls") or ():
        arguments = call["function"].get("arguments", "")
        assert isinstance(arguments, str)
        if call["index"] in calls:
            assert "id" not in call, "an id that is repeated"
            assert "name" not in call["function"], "a name that is repeated"
            calls[call["index"]]["arguments"] += arguments
        else:
            assert call["id"], "a call without an id"
            assert call["type"] == "function"
            calls[call["index"]] = {"id": call["id"], "name": call["function"]["name"], "arguments": arguments}


def chat_answer(answer: dict[str, Any]) -> Said:
    """Check an answer of OpenAI's chat in one piece."""
    [choice] = answer["choices"]
    message = choice["message"]
    assert message.get("reasoning_content") == message.get("reasoning"), "reasoning under one name only"
    calls = message.get("tool_calls") or []
    assert len({call["id"] for call in calls}) == len(calls)
    assert all(call["id"] and isinstance(call["function"]["arguments"], str) for call in calls)
    return Said(
        text=message["content"] or "",
        thinking=message.get("reasoning_content") or "",
        calls=[(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls],
        finish=choice["finish_reason"],
        events=1,
    )


def message_said(frames: list[dict[str, Any]]) -> Said:
    """Check a stream by Anthropic's rules and return what it says."""
    said = _of_blocks(message_blocks(frames), parsed=False)
    said.finish = frames[-2]["delta"]["stop_reason"]
    said.events = sum(frame["type"] != "ping" for frame in frames)
    return said


def message_answer(answer: dict[str, Any]) -> Said:
    """Check Anthropic's answer in one piece."""
    said = _of_blocks(answer["content"], parsed=True)
    said.finish, said.events = answer["stop_reason"], 1
    return said


def _of_blocks(blocks: list[dict[str, Any]], *, parsed: bool) -> Said:
    said = Said()
    for block in blocks:
        match block["type"]:
            case "text":
                assert block["text"], "an empty text block"
                said.text += block["text"]
            case "thinking":
                said.thinking += block["thinking"]
            case "tool_use":
                assert block["input"] == {} or parsed
                assert block["id"].startswith("toolu_")
                said.calls.append((block["name"], block["input"] if parsed else json.loads(block["json"] or "{}")))
            case kind:
                raise AssertionError(f"a block of the kind {kind}")
    return said


def response_said(frames: list[dict[str, Any]]) -> Said:
    """Check a stream by the rules of the Responses API and return what it says."""
    said = response_answer({**frames[-1]["response"], "output": response_items(frames)})
    said.events = len(frames)
    return said


def response_answer(response: dict[str, Any]) -> Said:
    """Check a response in one piece."""
    said = Said(finish=response["status"], events=1)
    for item in response["output"]:
        match item["type"]:
            case "message":
                said.text += "".join(part["text"] for part in item["content"])
            case "reasoning":
                said.thinking += "".join(part["text"] for part in item["content"])
            case "function_call":
                assert item["id"] != item["call_id"]
                said.calls.append((item["name"], json.loads(item["arguments"])))
            case kind:
                raise AssertionError(f"an item of the type {kind}")
    return said


def chat_lines(lines: list[dict[str, Any]]) -> Said:
    """Check the lines of Ollama's chat and return what they say; an answer in one piece is one line."""
    said = Said(events=len(lines))
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    for line in lines:
        message = line["message"]
        assert message["role"] == "assistant"
        assert line["created_at"].endswith("Z")
        said.text += message["content"]
        said.thinking += message.get("thinking", "")
        for call in message.get("tool_calls", ()):
            assert isinstance(call["function"]["arguments"], dict)
            said.calls.append((call["function"]["name"], call["function"]["arguments"]))
    last = lines[-1]
    said.finish = last["done_reason"]
    for name in ("total_duration", "load_duration", "prompt_eval_duration", "eval_duration", "eval_count"):
        assert type(last[name]) is int, f"{name} is not a whole number"
    return said

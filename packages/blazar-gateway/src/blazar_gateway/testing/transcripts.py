"""Reading streams as strict clients do: whole frames, and the order of events by each protocol's rules.

Both checkers are state machines that raise ``AssertionError``; unit tests and tests over sockets use the same ones.
"""

import json
from typing import Any


def named_events(body: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream whose frames have names; each must be ``event:`` and ``data:`` of one type."""
    frames = body.split(b"\n\n")
    assert frames.pop() == b"", "the last frame is not whole"
    return [named_event(frame) for frame in frames]


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

"""Whole frames of an engine's stream, as parsed chunks."""

import json
from typing import Any, cast

import orjson

from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.dialects.sse import END, data_of, split_frames

_DONE = b"[DONE]"
_DONE_FRAME = b"data: [DONE]" + END


def parse_frames(frames: bytes) -> tuple[list[object], bool]:
    """Return the values in ``frames``, and whether the end marker was among them.

    Bytes that never become a character, and halves of surrogate pairs, become U+FFFD. An event that is not JSON
    becomes an error object.
    """
    done = frames.endswith(_DONE_FRAME)
    if done:
        frames = frames[: -len(_DONE_FRAME)]
        if not frames:
            return [], True
    if frames.startswith(b"data: "):
        try:
            # No line break can stand inside JSON, so what looks like a frame's start is one.
            joined = frames[6:-2].replace(b"\n\ndata: ", b",")
            return cast("list[object]", orjson.loads(b"[" + joined + b"]")), done
        except orjson.JSONDecodeError:
            pass  # a comment, the end marker, or bytes that are no JSON: one by one
    chunks: list[object] = []
    for frame in split_frames(frames):
        data = data_of(frame)
        if data.strip() == _DONE:
            done = True
        elif data:
            chunks.append(_loads_leniently(data))
    return chunks, done


def plain_text(chunk: Any) -> str | None:
    """Return the text of a chunk that is one piece of a chat's text and nothing else, else ``None`` (or ``""``)."""
    try:
        [choice] = chunk["choices"]
        delta = choice["delta"]
        text = delta["content"]
        if len(delta) != 1 or choice["finish_reason"] is not None or choice["index"] or type(text) is not str:
            return None
    except (KeyError, TypeError, ValueError):
        return None
    return text if "usage" not in chunk and "logprobs" not in choice else None


def _loads_leniently(data: bytes) -> object:
    text = data.decode("utf-8", "replace")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        # Half a surrogate pair, which Python's own parser lets pass.
        loose = json.dumps(json.loads(text), ensure_ascii=False)
    except ValueError:
        return not_json()
    return orjson.loads(loose.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def not_json() -> JsonObject:
    """Return the error that stands for an event which is not JSON."""
    return {"error": {"message": "the engine wrote an event that is not JSON", "type": "server_error", "code": 500}}

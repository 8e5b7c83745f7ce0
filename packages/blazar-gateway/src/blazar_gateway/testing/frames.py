"""Frames as llama-server b10434 writes them, member for member."""

import json
from collections.abc import Mapping, Sequence

_HEAD = {
    "created": 1796025319,
    "id": "chatcmpl-ZyjEDr3G3MPz5M4eMGv7tZJwADLaAwyw",
    "model": "m",
    "system_fingerprint": "b1-7e4c0a9",
}

TIMINGS = {
    "cache_n": 31,
    "prompt_n": 1,
    "prompt_ms": 36.263,
    "predicted_n": 4,
    "predicted_per_second": 23.52627492804881,
}


def _frame(value: object) -> bytes:
    return b"data: " + json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n\n"


def chat_frame(
    delta: Mapping[str, object],
    *,
    finish: str | None = None,
    index: int = 0,
    logprobs: object = None,
    timings: object = None,
) -> bytes:
    """Return one chunk of a chat stream."""
    choice: dict[str, object] = {"finish_reason": finish, "index": index, "delta": delta}
    if logprobs is not None:
        choice["logprobs"] = logprobs
    chunk: dict[str, object] = {"choices": [choice], **_HEAD, "object": "chat.completion.chunk"}
    if timings is not None:
        chunk["timings"] = timings
    return _frame(chunk)


def usage_object(prompt: int, completion: int, cached: int = 0) -> dict[str, object]:
    """Return a ``usage`` object."""
    return {
        "completion_tokens": completion,
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def usage_frame(prompt: int, completion: int, *, cached: int = 0, timings: object = TIMINGS) -> bytes:
    """Return the chunk that follows a finish chunk when usage was asked for."""
    usage = usage_object(prompt, completion, cached)
    return _frame({"choices": [], **_HEAD, "object": "chat.completion.chunk", "usage": usage, "timings": timings})


def chat_stream(
    pieces: Sequence[str], *, finish: str = "stop", with_usage: bool = True, prompt_tokens: int = 9
) -> bytes:
    """Return a whole chat stream of one choice, as asked for with usage or without."""
    out = [chat_frame({"role": "assistant", "content": None})]
    out += [chat_frame({"content": piece}) for piece in pieces]
    out.append(chat_frame({}, finish=finish, timings=None if with_usage else TIMINGS))
    if with_usage:
        out.append(usage_frame(prompt_tokens, len(pieces)))
    out.append(done_frame())
    return b"".join(out)


def completion_frame(
    text: str, *, index: int = 0, finish: str | None = None, usage: object = None, logprobs: object = None
) -> bytes:
    """Return one chunk of a text completion's stream; llama-server has usage in the finish chunk, always."""
    chunk: dict[str, object] = {
        "choices": [{"text": text, "index": index, "logprobs": logprobs, "finish_reason": finish}],
        "created": _HEAD["created"],
        "model": _HEAD["model"],
        "system_fingerprint": _HEAD["system_fingerprint"],
        "object": "text_completion",
    }
    if usage is not None:
        chunk["usage"] = usage
    chunk["id"] = _HEAD["id"]
    if finish is not None:
        chunk["timings"] = TIMINGS
    return _frame(chunk)


def error_frame(message: str, *, code: int = 500, kind: str = "server_error") -> bytes:
    """Return the frame with which an engine ends a stream that failed."""
    return _frame({"error": {"code": code, "message": message, "type": kind}})


def done_frame() -> bytes:
    """Return the end marker."""
    return b"data: [DONE]\n\n"

"""One answer out of a stream, field for field the one that the engine would have given without a stream.

A client that leaves a non-stream call is not noticed by llama-server (b10434): it works on, in a slot that somebody
else waits for. So the engine is always asked for a stream, which it does cancel. What differs from its own answer is
what it gets wrong: usage is the sum over all choices.
"""

from typing import cast

import orjson

from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.dialects.openai import reasoning
from blazar_gateway.dialects.openai.generation import Surface
from blazar_gateway.dialects.openai.usage import UsageTally
from blazar_gateway.dialects.sse import END, FrameBuffer, data_of, split_frames

_DONE_FRAME = b"data: [DONE]" + END
_NOT_IN_ANSWERS = frozenset({"choices", "usage", "timings", "object", "prompt_progress"})


class Assembly:
    """One answer in the making.

    Args:
        surface: The route; it decides the answer's form.
        choices: ``n`` of the request.
        prompts: Prompts in the request.

    Attributes:
        complete: Whether the end marker has come.
        error: The ``error`` object that the engine put into the stream, or ``None``.
        tally: Usage seen so far.
    """

    __slots__ = ("_buffer", "_choices", "_finished", "_head", "_surface", "_timings", "complete", "error", "tally")

    def __init__(self, *, surface: Surface, choices: int = 1, prompts: int = 1) -> None:
        self._surface = surface
        self._buffer = FrameBuffer()
        self._head: JsonObject = {}
        self._choices: dict[int, _Choice] = {}
        self._finished = 0
        self._timings: dict[int, object] = {}
        self.complete = False
        self.error: JsonObject | None = None
        self.tally = UsageTally(choices=choices, prompts=prompts)

    def feed(self, data: bytes) -> None:
        """Take what was read."""
        frames = self._buffer.take(data)
        if frames:
            self._take(frames)

    def finish(self) -> None:
        """Take what is left when the engine has ended the stream in order."""
        rest = self._buffer.last()
        if rest:
            self._take(rest)

    def _take(self, frames: bytes) -> None:
        for chunk in self._parse(frames):
            if type(chunk) is not dict:
                continue  # `data: null` between several prompts
            error = chunk.get("error")
            if error is not None:
                self.error = error if isinstance(error, dict) else {"message": error}
            else:
                self._add(chunk)

    def _parse(self, frames: bytes) -> list[JsonObject | None]:
        """Return the objects in ``frames``; all of a read at once where nothing but plain frames is in it."""
        if frames.endswith(_DONE_FRAME):
            self.complete = True
            frames = frames[: -len(_DONE_FRAME)]
            if not frames:
                return []
        if frames.startswith(b"data: "):
            try:
                # No line break can stand inside JSON, so what looks like a frame's start is one.
                joined = frames[6:-2].replace(b"\n\ndata: ", b",")
                return cast("list[JsonObject | None]", orjson.loads(b"[" + joined + b"]"))
            except orjson.JSONDecodeError:
                pass  # a comment, the end marker, or bytes that are no JSON: one by one
        return self._parse_singly(frames)

    def _parse_singly(self, frames: bytes) -> list[JsonObject | None]:
        chunks: list[JsonObject | None] = []
        for frame in split_frames(frames):
            data = data_of(frame)
            if data.strip() == b"[DONE]":
                self.complete = True
            elif data:
                chunks.append(_loads_leniently(data))
        return chunks

    def _add(self, chunk: JsonObject) -> None:
        self._head = chunk
        choices = cast("list[JsonObject] | None", chunk.get("choices"))
        if choices:
            for piece in choices:
                index = cast("int", piece.get("index", 0))
                choice = self._choices.get(index)
                if choice is None:
                    choice = self._choices[index] = _Choice()
                choice.add(piece)
                if choice.finish_reason is None:
                    self.tally.pieces += 1
                else:
                    self._finished = index
        usage = chunk.get("usage")
        if type(usage) is dict:
            self.tally.add(usage)
        if "timings" in chunk:
            # In the finish frame of its choice, or in the usage frame right after it.
            self._timings[self._finished] = chunk["timings"]

    def answer(self) -> bytes:
        """Return the answer's body. The order of members is llama-server's."""
        head = self._head
        chat = self._surface is Surface.CHAT
        order = sorted(self._choices)
        answer: JsonObject = {
            "choices": [self._choices[index].message(index, chat=chat) for index in order],
            "created": head.get("created"),
            "model": head.get("model"),
            "system_fingerprint": head.get("system_fingerprint"),
            "object": "chat.completion" if chat else "text_completion",
        }
        if not self.tally.is_empty:
            answer["usage"] = self.tally.object()
        answer["id"] = head.get("id")
        if self._timings:
            answer["timings"] = self._timings[min(self._timings)]
        for name, value in head.items():
            if name not in _NOT_IN_ANSWERS:
                answer[name] = value
        if head.get("system_fingerprint") is None:
            del answer["system_fingerprint"]
        return orjson.dumps(answer)


def _loads_leniently(data: bytes) -> JsonObject:
    try:
        return cast("JsonObject", orjson.loads(data))
    except orjson.JSONDecodeError:
        pass
    try:
        # A model may emit bytes that never become a character.
        return cast("JsonObject", orjson.loads(data.decode("utf-8", "replace")))
    except orjson.JSONDecodeError:
        return {"error": {"message": "the engine wrote an event that is not JSON", "type": "server_error", "code": 500}}


class _Choice:
    """One choice in the making."""

    __slots__ = ("_calls", "_extra", "_logprobs", "_texts", "finish_reason")

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}
        self._calls: list[JsonObject] = []
        self._logprobs: JsonObject | None = None
        self._extra: JsonObject = {}
        self.finish_reason: object = None

    def add(self, piece: JsonObject) -> None:
        delta = piece.get("delta")
        if delta is None:
            delta = {"text": piece.get("text")}
        for name, value in cast("JsonObject", delta).items():
            if type(value) is str and name != "role":
                texts = self._texts.get(name)
                if texts is None:
                    self._texts[name] = [value]
                else:
                    texts.append(value)
            elif name == "tool_calls" and type(value) is list:
                for call in value:
                    self._add_call(call)
            elif value is not None:
                self._extra[name] = value
        finish_reason = piece.get("finish_reason")
        if finish_reason is not None:
            self.finish_reason = finish_reason
        logprobs = piece.get("logprobs")
        if logprobs is not None:
            self._add_logprobs(cast("JsonObject", logprobs))

    def _add_call(self, piece: JsonObject) -> None:
        index = cast("int", piece.get("index", 0))
        given = piece.get("id")
        known = next((call for call in reversed(self._calls) if call["index"] == index), None)
        # Some engines write every call of a turn with index 0: another id is another call.
        if known is None or (given and known["id"] and given != known["id"]):
            known = {"index": index, "type": "function", "name": "", "arguments": [], "id": ""}
            self._calls.append(known)
        if given:
            known["id"] = given
        function = piece.get("function")
        if type(function) is dict:
            known["name"] = function.get("name") or known["name"]
            arguments = function.get("arguments")
            if arguments:
                cast("list[object]", known["arguments"]).append(arguments)

    def _add_logprobs(self, logprobs: JsonObject) -> None:
        if self._logprobs is None:
            self._logprobs = {}
        for name, value in logprobs.items():
            known = self._logprobs.get(name)
            if type(known) is list and type(value) is list:
                known.extend(value)
            elif known is None or value is not None:
                self._logprobs[name] = value

    def message(self, index: int, *, chat: bool) -> JsonObject:
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        if not chat:
            text = texts.get("text", "")
            return {"text": text, "index": index, "logprobs": self._logprobs, "finish_reason": self.finish_reason}
        message: JsonObject = {
            "role": self._extra.pop("role", "assistant"),
            "content": texts.pop("content", ""),
            **{name: text for name, text in texts.items() if text},
            **self._extra,
        }
        reasoning.name_twice_in(message)
        if self._calls:
            message["tool_calls"] = [_call(call) for call in self._calls]
        choice: JsonObject = {"finish_reason": self.finish_reason, "index": index, "message": message}
        if self._logprobs is not None:
            choice["logprobs"] = self._logprobs
        return choice


def _call(call: JsonObject) -> JsonObject:
    pieces = cast("list[object]", call["arguments"])
    arguments = "".join(piece if isinstance(piece, str) else orjson.dumps(piece).decode() for piece in pieces)
    return {"type": "function", "function": {"name": call["name"], "arguments": arguments}, "id": call["id"]}

"""One answer out of a stream, field for field the one that the engine would have given without a stream, and two more.

A client that leaves a non-stream call is not noticed by llama-server (b10434): it works on, in a slot that somebody
else waits for. So the engine is always asked for a stream, which it does cancel. What differs from its own answer is
what engines get wrong: usage is the sum over all choices; calls have indices, ids and arguments as strings, and a turn
that makes them finishes with ``tool_calls``; thoughts between tags are reasoning.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from blazar_gateway.dialects.engine_chunks import parse_frames, plain_text
from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.dialects.openai import reasoning
from blazar_gateway.dialects.openai.generation import Surface
from blazar_gateway.dialects.openai.usage import UsageTally
from blazar_gateway.dialects.sse import FrameBuffer
from blazar_gateway.dialects.think_tags import split_thoughts
from blazar_gateway.dialects.tool_calls import CallPieces

_NOT_IN_ANSWERS = frozenset({"choices", "usage", "timings", "object", "prompt_progress"})


class Assembly:
    """One answer in the making.

    Args:
        surface: The route; it decides the answer's form.
        choices: ``n`` of the request.
        prompts: Prompts in the request.
        new_call_id: Makes an id for a tool call that came without one.
        one_call: Keep only the first tool call.

    Attributes:
        complete: Whether the end marker has come.
        error: The ``error`` object that the engine put into the stream, or ``None``.
        tally: Usage seen so far.
    """

    __slots__ = (
        "_buffer",
        "_choices",
        "_finished",
        "_head",
        "_new_call_id",
        "_one_call",
        "_surface",
        "_timings",
        "complete",
        "error",
        "tally",
    )

    def __init__(
        self,
        *,
        surface: Surface,
        choices: int = 1,
        prompts: int = 1,
        new_call_id: Callable[[], str],
        one_call: bool = False,
    ) -> None:
        self._surface = surface
        self._new_call_id = new_call_id
        self._one_call = one_call
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
        chunks, done = parse_frames(frames)
        self.complete |= done
        texts = self._texts_so_far()
        for chunk in chunks:
            # Nearly every chunk is one piece of text and nothing else.
            if texts is not None and (text := plain_text(chunk)):
                texts.append(text)
                self.tally.pieces += 1
                continue
            self.take_answer(chunk)
            if texts is None:
                texts = self._texts_so_far()

    def _texts_so_far(self) -> list[str] | None:
        """Return where the text of the first choice is gathered, once it has some."""
        first = self._choices.get(0)
        return None if first is None else first.texts("content")

    def take_answer(self, chunk: object) -> None:
        """Take a chunk, or an answer that the engine gave in one piece."""
        if type(chunk) is not dict:
            return  # `data: null` between several prompts
        error = chunk.get("error")
        if error is not None:
            self.error = error if isinstance(error, dict) else {"message": error}
        else:
            self._add(chunk)

    def _add(self, chunk: JsonObject) -> None:
        self._head = chunk
        choices = cast("list[JsonObject] | None", chunk.get("choices"))
        if choices:
            for piece in choices:
                index = cast("int", piece.get("index", 0))
                choice = self._choices.get(index)
                if choice is None:
                    choice = self._choices[index] = _Choice(self._new_call_id, one_call=self._one_call)
                choice.add(piece)
                if choice.finish_reason is not None:
                    self._finished = index
                elif not _only_opens(piece):
                    self.tally.pieces += 1
        usage = chunk.get("usage")
        if type(usage) is dict:
            self.tally.add(usage)
        if "timings" in chunk:
            # In the finish frame of its choice, or in the usage frame right after it.
            self._timings[self._finished] = chunk["timings"]

    def object(self) -> JsonObject:
        """Return the answer. The order of members is llama-server's."""
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
        return answer


def _only_opens(piece: JsonObject) -> bool:
    """Return whether a piece only says whose turn it is."""
    delta = piece.get("delta")
    return type(delta) is dict and len(delta) == 2 and "role" in delta and delta.get("content") is None


class _Choice:
    """One choice in the making."""

    __slots__ = ("_calls", "_extra", "_logprobs", "_one_call", "_pieces", "_texts", "finish_reason")

    def __init__(self, new_call_id: Callable[[], str], *, one_call: bool) -> None:
        self._texts: dict[str, list[str]] = {}
        self._pieces = CallPieces(new_call_id=new_call_id)
        self._one_call = one_call
        self._calls: dict[int, _Call] = {}
        self._logprobs: JsonObject | None = None
        self._extra: JsonObject = {}
        self.finish_reason: object = None

    def texts(self, name: str) -> list[str] | None:
        """Return the pieces of a text, or ``None`` when there are none yet."""
        return self._texts.get(name)

    def add(self, piece: JsonObject) -> None:
        delta = piece.get("delta") or piece.get("message")
        if not isinstance(delta, dict):
            delta = {"text": piece.get("text")}
        for name, value in delta.items():
            if type(value) is str and name != "role":
                texts = self._texts.get(name)
                if texts is None:
                    self._texts[name] = [value]
                else:
                    texts.append(value)
            elif name == "tool_calls" and type(value) is list:
                for call in value:
                    if isinstance(call, dict):
                        self._add_call(call)
            elif value is not None:
                self._extra[name] = value
        finish_reason = piece.get("finish_reason")
        if finish_reason is not None:
            self.finish_reason = finish_reason
        logprobs = piece.get("logprobs")
        if isinstance(logprobs, dict):
            self._add_logprobs(logprobs)

    def _add_call(self, call: dict[str, Any]) -> None:
        piece = self._pieces.take(call)
        if self._one_call and piece.index > 0:
            return
        if piece.begins:
            self._calls[piece.index] = _Call(piece.id, piece.name)
        if piece.arguments:
            self._calls[piece.index].arguments.append(piece.arguments)

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
        content = texts.pop("content", "")
        if not any(texts.get(name) for name in ("reasoning_content", "reasoning")):
            thought, content = split_thoughts(content)
            if thought:
                texts["reasoning_content"] = thought
        message: JsonObject = {
            "role": self._extra.pop("role", "assistant"),
            "content": content,
            **{name: text for name, text in texts.items() if text},
            **self._extra,
        }
        reasoning.name_twice_in(message)
        finish = self.finish_reason
        if self._calls:
            message["tool_calls"] = [call.object() for call in self._calls.values()]
            finish = "tool_calls" if finish in {"stop", "function_call"} else finish
        # Validators of OpenAI's schema want these two, which engines leave out, present though they be null.
        message.setdefault("refusal", None)
        return {"finish_reason": finish, "index": index, "message": message, "logprobs": self._logprobs}


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)

    def object(self) -> JsonObject:
        function = {"name": self.name, "arguments": "".join(self.arguments) or "{}"}
        return {"type": "function", "function": function, "id": self.id}

"""How results look in Anthropic's Messages format (server-task.cpp, to_json_anthropic*)."""

import json
from collections.abc import Sequence
from typing import Any

from blazar_stubs.llama_server.exchange import dumps
from blazar_stubs.llama_server.identifiers import random_word
from blazar_stubs.llama_server.knobs import Json
from blazar_stubs.llama_server.results import Choice, Partial, Piece, Progress, Scripted


def named_event(name: str, data: Json) -> bytes:
    """One event with a name, as both dialects that have names write it."""
    return b"event: " + name.encode() + b"\ndata: " + dumps(data) + b"\n\n"


def event(kind: str, **facts: Any) -> bytes:
    """An event whose data repeats its name as type."""
    return named_event(kind, {"type": kind, **facts})


def scripted_piece(chunk: Json) -> Piece | None:
    """A scripted delta as a piece, for formats that have no deltas of their own; None for what they cannot say."""
    if chunk.get("content"):
        return Piece("content", chunk["content"])
    reasoning = chunk.get("reasoning_content") or chunk.get("reasoning")
    return Piece("reasoning", reasoning) if reasoning else None


class MessagesShape:
    """``/v1/messages``."""

    closing = b""

    def __init__(self, model: str) -> None:
        self._id = "chatcmpl-" + random_word()
        self._model = model
        self._thought = False
        self._wrote = False

    def _usage(self, choice: Choice, output: int) -> Json:
        return {
            "cache_read_input_tokens": choice.cached,
            "input_tokens": len(choice.prompt) - choice.cached,
            "output_tokens": output,
        }

    def partial(self, result: Partial) -> bytes:
        """A token, and the start of its block if it is the first there."""
        choice, piece = result.choice, result.piece
        start = b""
        if result.is_first:
            message: Json = {
                "id": self._id, "type": "message", "role": "assistant", "content": [], "model": self._model,
                "stop_reason": None, "stop_sequence": None, "usage": self._usage(choice, 0),
            }  # fmt: skip
            start = event("message_start", message=message)
        match piece.kind:
            case "reasoning":
                return start + self._thinking(piece.text)
            case "content":
                return start + self._text(piece.text)
            case _:
                return start + self._tool(piece)

    def _thinking(self, text: str) -> bytes:
        start = b""
        if not self._thought:
            self._thought = True
            start = event("content_block_start", index=0, content_block={"type": "thinking", "thinking": ""})
        return start + event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": text})

    def _text(self, text: str) -> bytes:
        index = int(self._thought)
        start = b""
        if not self._wrote:
            self._wrote = True
            start = event("content_block_start", index=index, content_block={"type": "text", "text": ""})
        return start + event("content_block_delta", index=index, delta={"type": "text_delta", "text": text})

    def _tool(self, piece: Piece) -> bytes:
        tool = piece.tool
        assert tool is not None
        index = int(self._thought) + int(self._wrote) + tool.number
        out = b""
        if tool.name:
            block = {"type": "tool_use", "id": tool.id, "name": tool.name}
            out = event("content_block_start", index=index, content_block=block)
        if tool.arguments:
            delta = {"type": "input_json_delta", "partial_json": tool.arguments}
            out += event("content_block_delta", index=index, delta=delta)
        return out

    def progress(self, result: Progress) -> bytes:  # noqa: ARG002 - this format has no word for it
        """Nothing."""
        return b""

    def scripted(self, result: Scripted) -> bytes:
        """A scripted text or thought; other chunks have no place in this format."""
        piece = scripted_piece(result.chunk)
        return self.partial(Partial(result.choice, piece, result.is_first, 0)) if piece else b""

    def final(self, choice: Choice) -> bytes:
        """Close every block, then say why it ended."""
        out = b""
        if choice.reasoning:
            out += event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": ""})
        blocks = int(bool(choice.reasoning)) + int(bool(choice.content)) + len(choice.calls)
        out += b"".join(event("content_block_stop", index=index) for index in range(blocks))
        ending = {"stop_reason": _stop_reason(choice), "stop_sequence": choice.stopping_word or None}
        out += event("message_delta", delta=ending, usage={"output_tokens": choice.decoded})
        return out + event("message_stop")

    def whole(self, choices: Sequence[Choice]) -> Json:
        """The plain answer."""
        choice = choices[0]
        content: list[Json] = []
        if choice.reasoning:
            content.append({"type": "thinking", "thinking": choice.reasoning, "signature": ""})
        if choice.content:
            content.append({"type": "text", "text": choice.content})
        for call in choice.calls:
            function = call["function"]
            block = {"type": "tool_use", "id": call["id"], "name": function["name"]}
            content.append({**block, "input": _parsed(function["arguments"])})
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "content": content,
            "model": self._model,
            "stop_reason": _stop_reason(choice),
            "stop_sequence": choice.stopping_word or None,
            "usage": self._usage(choice, choice.decoded),
        }

    def error(self, body: Json) -> bytes:
        """An event named error, whose data is OpenAI's object (observed)."""
        return named_event("error", body)


def _stop_reason(choice: Choice) -> str:
    match choice.finish_reason:
        case "length":
            return "max_tokens"
        case "tool_calls":
            return "tool_use"
        case _:
            return "end_turn"


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return {}

"""How results look in OpenAI's chat and completions formats and in the engine's own (server-task.cpp)."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

from blazar_stubs.llama_server.exchange import dumps
from blazar_stubs.llama_server.identifiers import random_word
from blazar_stubs.llama_server.knobs import Json, Script
from blazar_stubs.llama_server.results import Choice, Partial, Piece, Progress, Scripted

FINGERPRINT = "b1-7e4c0a9"


class Shape(Protocol):
    """One wire format. Streams are bytes ready to send; `whole` is the body of a plain answer."""

    closing: bytes

    def partial(self, result: Partial) -> bytes:
        """A token."""

    def progress(self, result: Progress) -> bytes:
        """How far the prompt is evaluated."""

    def scripted(self, result: Scripted) -> bytes:
        """A chunk from a script."""

    def final(self, choice: Choice) -> bytes:
        """The end of one choice."""

    def whole(self, choices: Sequence[Choice]) -> Any:
        """The body of a plain answer."""

    def error(self, body: Json) -> bytes:
        """A failure after the stream began."""


def frame(value: Any) -> bytes:
    """One event."""
    return b"data: " + dumps(value) + b"\n\n"


def tool_delta(piece: Piece) -> Json:
    """A tool call's piece as a delta (server_chat_msg_diff_to_json_oaicompat)."""
    tool = piece.tool
    assert tool is not None
    call: Json = {"index": tool.number}
    if tool.id:
        call |= {"id": tool.id, "type": "function"}
    function = {"name": tool.name} if tool.name else {}
    if tool.arguments:
        function["arguments"] = tool.arguments
    if function:
        call["function"] = function
    return {"tool_calls": [call]}


def delta_of(piece: Piece) -> Json:
    """A piece as a chat delta."""
    match piece.kind:
        case "content":
            return {"content": piece.text}
        case "reasoning":
            return {"reasoning_content": piece.text}
        case _:
            return tool_delta(piece)


def message_of(choice: Choice) -> Json:
    """The assistant's message."""
    message: Json = {"role": "assistant", "content": choice.content}
    if choice.reasoning:
        message["reasoning_content"] = choice.reasoning
    if choice.calls:
        message["tool_calls"] = [{key: value for key, value in call.items() if key != "index"} for call in choice.calls]
    return message


class ChatShape:
    """``/v1/chat/completions``."""

    closing = b"data: [DONE]\n\n"

    def __init__(self, model: str, script: Script) -> None:
        self._id = "chatcmpl-" + random_word()
        self._model = model
        self._script = script

    def _chunk(self, choices: list[Json], **more: Any) -> Json:
        return {
            "choices": choices,
            "created": int(time.time()),
            "id": self._id,
            "model": self._model,
            "system_fingerprint": FINGERPRINT,
            "object": "chat.completion.chunk",
            **more,
        }

    def _delta(self, choice: Choice, delta: Json, **more: Any) -> Json:
        return self._chunk([{"finish_reason": None, "index": choice.index, "delta": delta}], **more)

    def _role(self, choice: Choice, **more: Any) -> Json:
        return self._delta(choice, {"role": "assistant", "content": None}, **more)

    def partial(self, result: Partial) -> bytes:
        """The role comes in a chunk of its own before the first token."""
        choice = result.choice
        chunk = self._delta(choice, delta_of(result.piece))
        if result.probability is not None:
            chunk["choices"][0]["logprobs"] = {"content": [result.probability]}
        if result.timings is not None:
            chunk["timings"] = result.timings
        return (frame(self._role(choice)) if result.is_first else b"") + frame(chunk)

    def progress(self, result: Progress) -> bytes:
        """A role chunk with the progress in it."""
        more: Json = {"prompt_progress": result.facts}
        if result.timings is not None:
            more = {"timings": result.timings, **more}
        return frame(self._role(result.choice, **more))

    def scripted(self, result: Scripted) -> bytes:
        """A chunk as the script has it: raw bytes, a whole object, a delta, usage, an error, null or a comment."""
        chunk = result.chunk
        if "raw" in chunk:
            return str(chunk["raw"]).encode()
        if "comment" in chunk:
            return f": {chunk['comment']}\n\n".encode()
        if chunk.get("null"):
            return b"data: null\n\n"
        if "json" in chunk:
            return frame(chunk["json"])
        if "error" in chunk:
            return frame({"error": chunk["error"]})
        if "usage" in chunk:
            return frame(self._chunk([], usage=chunk["usage"]))
        role = frame(self._role(result.choice)) if result.is_first and "role" not in chunk else b""
        return role + frame(self._delta(result.choice, chunk))

    def final(self, choice: Choice) -> bytes:
        """The finish chunk, then usage if asked for; timings sit in the last of them."""
        chunks: list[Json] = []
        if choice.finish_reason is not None:
            finish = {"finish_reason": choice.finish_reason, "index": choice.index, "delta": {}}
            chunks.append(self._chunk([finish]))
        if choice.params.include_usage or self._script.get("usage_always"):
            chunks.append(self._chunk([], usage=choice.usage_shown()))
        if chunks and choice.decoded:
            chunks[-1]["timings"] = choice.timings()
        return b"".join(map(frame, chunks))

    def whole(self, choices: Sequence[Choice]) -> Json:
        """Several choices share one answer, with the first one's usage only (observed)."""
        shown: list[Json] = []
        for choice in choices:
            entry: Json = {
                "finish_reason": choice.finish_reason,
                "index": choice.index,
                "message": message_of(choice),
            }
            if choice.probabilities:
                entry["logprobs"] = {"content": choice.probabilities}
            shown.append(entry)
        first = choices[0]
        body: Json = {
            "choices": shown,
            "created": int(time.time()),
            "model": self._model,
            "system_fingerprint": FINGERPRINT,
            "object": "chat.completion",
            "usage": first.usage_shown(),
            "id": self._id,
        }
        if first.params.verbose:
            body["__verbose"] = NativeShape(self._model).final_object(first)
        return {**body, "timings": first.timings()}

    def error(self, body: Json) -> bytes:
        """One frame, after which the stream ends without its closing mark."""
        return frame({"error": body})


class CompletionShape:
    """``/v1/completions``."""

    closing = b"data: [DONE]\n\n"

    def __init__(self, model: str, script: Script) -> None:
        self._id = "chatcmpl-" + random_word()
        self._model = model
        self._script = script

    def _object(self, choices: list[Json], **usage: Any) -> Json:
        return {
            "choices": choices,
            "created": int(time.time()),
            "model": self._model,
            "system_fingerprint": FINGERPRINT,
            "object": "text_completion",
            **usage,
            "id": self._id,
        }

    @staticmethod
    def _choice(choice: Choice, text: str, probabilities: list[Json], finish: str | None) -> Json:
        logprobs = {"content": probabilities} if probabilities else None
        return {"text": text, "index": choice.index, "logprobs": logprobs, "finish_reason": finish}

    def partial(self, result: Partial) -> bytes:
        """A token; this format knows text only."""
        probabilities = [result.probability] if result.probability else []
        body = self._object([self._choice(result.choice, result.piece.text, probabilities, None)])
        if result.timings is not None:
            body["timings"] = result.timings
        return frame(body)

    def progress(self, result: Progress) -> bytes:
        """An empty text with the progress in it."""
        body = self._object([self._choice(result.choice, "", [], None)])
        return frame({**body, "prompt_progress": result.facts})

    def scripted(self, result: Scripted) -> bytes:
        """A chunk as the script has it; `content` is the text."""
        chunk = result.chunk
        if "content" in chunk:
            return frame(self._object([self._choice(result.choice, chunk["content"], [], None)]))
        return ChatShape(self._model, self._script).scripted(result._replace(is_first=False))

    def final(self, choice: Choice) -> bytes:
        """The last chunk always carries usage."""
        body = self._object([self._choice(choice, "", [], choice.finish_reason)], usage=choice.usage_shown())
        return frame({**body, "timings": choice.timings()} if choice.decoded else body)

    def whole(self, choices: Sequence[Choice]) -> Json:
        """Several prompts share one answer, with the first one's usage only (observed)."""
        shown = [self._choice(each, each.content, each.probabilities, each.finish_reason) for each in choices]
        body = self._object(shown, usage=choices[0].usage_shown())
        return {**body, "timings": choices[0].timings()}

    def error(self, body: Json) -> bytes:
        """As in chat."""
        return frame({"error": body})


class NativeShape:
    """``/completion``: the engine's own format, whose stream has no closing mark."""

    closing = b""

    def __init__(self, model: str) -> None:
        self._model = model

    def partial(self, result: Partial) -> bytes:
        """A token, with its number."""
        choice = result.choice
        body: Json = {
            "index": choice.index,
            "content": result.piece.text,
            "tokens": list(result.piece.tokens),
            "stop": False,
            "id_slot": -1,
            "tokens_predicted": result.decoded,
            "tokens_evaluated": len(choice.prompt),
        }
        if result.timings is not None:
            body["timings"] = result.timings
        if result.probability is not None:
            body["completion_probabilities"] = [result.probability]
        return frame(body)

    def progress(self, result: Progress) -> bytes:
        """An empty token with the progress in it."""
        choice = result.choice
        body = {
            "index": choice.index, "content": "", "tokens": [], "stop": False, "id_slot": -1,
            "tokens_predicted": 0, "tokens_evaluated": len(choice.prompt), "prompt_progress": result.facts,
        }  # fmt: skip
        return frame(body)

    def scripted(self, result: Scripted) -> bytes:
        """A chunk as the script has it."""
        return ChatShape(self._model, {}).scripted(result._replace(is_first=False))

    def final_object(self, choice: Choice) -> Json:
        """The final result."""
        params = choice.params
        body: Json = {
            "index": choice.index,
            "content": "" if params.stream else choice.content,
            "tokens": choice.tokens if params.return_tokens and not params.stream else [],
            "id_slot": choice.slot,
            "stop": True,
            "model": self._model,
            "tokens_predicted": choice.decoded,
            "tokens_evaluated": len(choice.prompt),
            "generation_settings": params.shown(
                full=True, chat_format=choice.chat_format, generation_prompt=choice.generation_prompt
            ),
            "prompt": choice.prompt_text,
            "has_new_line": "\n" in choice.content,
            "truncated": choice.truncated,
            "stop_type": choice.stop_type,
            "stopping_word": choice.stopping_word,
            "tokens_cached": max(0, len(choice.prompt) + choice.decoded - 1),
            "timings": choice.timings(),
        }
        if choice.probabilities and not params.stream:
            body["completion_probabilities"] = choice.probabilities
        return body

    def final(self, choice: Choice) -> bytes:
        """The last event has ``"stop": true`` and everything else."""
        return frame(self.final_object(choice))

    def whole(self, choices: Sequence[Choice]) -> Any:
        """One object, or a list of them for several prompts."""
        shown = [self.final_object(choice) for choice in choices]
        return shown[0] if len(shown) == 1 else shown

    def error(self, body: Json) -> bytes:
        """As in chat."""
        return frame({"error": body})

"""How results look in OpenAI's Responses format (server-task.cpp, to_json_oaicompat_resp*)."""

import time
from collections.abc import Sequence
from typing import Any

from blazar_stubs.llama_server.identifiers import random_word
from blazar_stubs.llama_server.knobs import Json
from blazar_stubs.llama_server.messages_shape import event, scripted_piece
from blazar_stubs.llama_server.results import Choice, Partial, Piece, Progress, Scripted
from blazar_stubs.llama_server.shapes import frame


class ResponsesShape:
    """``/v1/responses``."""

    closing = b""

    def __init__(self, model: str) -> None:
        self._id = "resp_" + random_word()
        self._message_id = "msg_" + random_word()
        self._reasoning_id = "rs_" + random_word()
        self._call_id = ""
        self._model = model
        self._created = False
        self._thought = False
        self._wrote = False

    def _opening(self) -> bytes:
        if self._created:
            return b""
        self._created = True
        response = {"id": self._id, "object": "response", "status": "in_progress"}
        return event("response.created", response=response) + event("response.in_progress", response=response)

    def partial(self, result: Partial) -> bytes:
        """A token, and the start of its item if it is the first there."""
        piece = result.piece
        match piece.kind:
            case "reasoning":
                return self._opening() + self._thinking(piece.text)
            case "content":
                return self._opening() + self._text(piece.text)
            case _:
                return self._opening() + self._tool(piece)

    def _thinking(self, text: str) -> bytes:
        start = b""
        if not self._thought:
            self._thought = True
            item = {
                "id": self._reasoning_id, "summary": [], "type": "reasoning", "content": [], "encrypted_content": "",
                "status": "in_progress",
            }  # fmt: skip
            start = event("response.output_item.added", item=item)
        return start + event("response.reasoning_text.delta", delta=text, item_id=self._reasoning_id)

    def _text(self, text: str) -> bytes:
        start = b""
        if not self._wrote:
            self._wrote = True
            item = {
                "content": [], "id": self._message_id, "role": "assistant", "status": "in_progress",
                "type": "message",
            }  # fmt: skip
            start = event("response.output_item.added", item=item)
            part = {"type": "output_text", "text": ""}
            start += event("response.content_part.added", item_id=self._message_id, part=part)
        return start + event("response.output_text.delta", item_id=self._message_id, delta=text)

    def _tool(self, piece: Piece) -> bytes:
        tool = piece.tool
        assert tool is not None
        out = b""
        if tool.name:
            self._call_id = tool.id
            item = {
                "id": "fc_" + tool.id, "arguments": "", "call_id": "call_" + tool.id, "name": tool.name,
                "type": "function_call", "status": "in_progress",
            }  # fmt: skip
            out = event("response.output_item.added", item=item)
        if tool.arguments:
            identifier = "fc_" + self._call_id
            out += event("response.function_call_arguments.delta", delta=tool.arguments, item_id=identifier)
        return out

    def progress(self, result: Progress) -> bytes:
        """The opening again, with the progress in it."""
        opening = self._opening()
        if opening:
            return opening
        response = {"id": self._id, "object": "response", "status": "in_progress"}
        return event("response.in_progress", response=response, prompt_progress=result.facts)

    def scripted(self, result: Scripted) -> bytes:
        """A scripted text or thought; other chunks have no place in this format."""
        piece = scripted_piece(result.chunk)
        return self.partial(Partial(result.choice, piece, result.is_first, 0)) if piece else b""

    def _items(self, choice: Choice, *, streamed: bool) -> list[Json]:
        items: list[Json] = []
        if choice.reasoning:
            part = {"text": choice.reasoning, "type": "reasoning_text"}
            item = {
                "id": self._reasoning_id, "summary": [], "type": "reasoning", "content": [part],
                "encrypted_content": "",
            }  # fmt: skip
            items.append(item if streamed else {**item, "status": "completed"})
        if choice.content:
            part = _text_part(choice.content)
            item = {
                "type": "message", "status": "completed", "id": self._message_id, "content": [part],
                "role": "assistant",
            }  # fmt: skip
            # The plain answer lists the same fields by name.
            items.append(item if streamed else dict(sorted(item.items())))
        for call in choice.calls:
            function = call["function"]
            items.append(
                {
                    "id": "fc_" + call["id"],
                    "type": "function_call",
                    "status": "completed",
                    "arguments": function["arguments"],
                    "call_id": "call_" + call["id"],
                    "name": function["name"],
                }
            )
        return items

    @staticmethod
    def _usage(choice: Choice) -> Json:
        return {
            "input_tokens": len(choice.prompt),
            "output_tokens": choice.decoded,
            "total_tokens": len(choice.prompt) + choice.decoded,
            "input_tokens_details": {"cached_tokens": choice.cached},
        }

    def final(self, choice: Choice) -> bytes:
        """Close every item, then give the whole response once more."""
        out = self._opening()
        items = self._items(choice, streamed=True)
        for item in items:
            if item["type"] == "message":
                text = choice.content
                out += event("response.output_text.done", item_id=self._message_id, text=text)
                out += event("response.content_part.done", item_id=self._message_id, part=_text_part(text))
            out += event("response.output_item.done", item=item)
        response = {
            "id": self._id, "object": "response", "created_at": int(time.time()), "status": "completed",
            "model": self._model, "output": items, "usage": self._usage(choice),
        }  # fmt: skip
        more: Json = {"timings": choice.timings()} if choice.decoded else {}
        return out + event("response.completed", response=response, **more)

    def whole(self, choices: Sequence[Choice]) -> Json:
        """The plain answer."""
        choice = choices[0]
        now = int(time.time())
        return {
            "completed_at": now,
            "created_at": now,
            "id": self._id,
            "model": self._model,
            "object": "response",
            "output": self._items(choice, streamed=False),
            "status": "completed",
            "usage": self._usage(choice),
        }

    def error(self, body: Json) -> bytes:
        """A bare frame, as in chat."""
        return frame({"error": body})


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}

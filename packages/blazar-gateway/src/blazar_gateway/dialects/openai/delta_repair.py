"""A chat's deltas where an engine writes them wrongly: thoughts left in the text, calls and finish out of order.

Frames that are right stay the engine's own bytes. What has to be looked at is little: the first text of an answer
(only there can a tag open), frames with tool calls, and the finish of an answer that made some.
"""

from collections.abc import Callable
from typing import Any

import orjson

from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.dialects.sse import END, data_of, split_frames
from blazar_gateway.dialects.think_tags import ThinkTags
from blazar_gateway.dialects.tool_calls import CallPieces

_CALLS = b'"tool_calls"'
_DONE = b"[DONE]"
_WRONG_FINISH = frozenset({"stop", "function_call"})


class _Choice:
    """What is known of one choice."""

    __slots__ = ("calls", "tags", "without_arguments")

    def __init__(self, new_call_id: Callable[[], str]) -> None:
        # Calls of which nothing but the name has come.
        self.without_arguments: set[int] = set()
        self.tags = ThinkTags()
        self.calls = CallPieces(new_call_id=new_call_id)


class DeltaRepair:
    """One stream's state.

    Args:
        choices: ``n`` of the request.
        new_call_id: Makes an id for a tool call that came without one.
        one_call: Keep only the first tool call.
    """

    __slots__ = ("_calls_seen", "_choices", "_head", "_number", "_one_call", "_settled")

    def __init__(self, *, choices: int = 1, new_call_id: Callable[[], str], one_call: bool = False) -> None:
        self._number = choices
        self._one_call = one_call
        self._choices: dict[int, _Choice] = {}
        self._head: JsonObject = {}
        self._settled = False
        self._calls_seen = False
        for index in range(choices):
            self._choices[index] = _Choice(new_call_id)

    def repair(self, frames: bytes) -> bytes:
        """Return whole frames with those replaced that are wrong."""
        if self._settled and not self._calls_seen and _CALLS not in frames:
            return frames
        out: list[bytes] = []
        if not self._calls_seen and _CALLS not in frames:
            # Up to the first text; what follows stays one piece.
            start = 0
            while start < len(frames) and not self._settled:
                end = frames.find(END, start) + len(END)
                if end - start > len(END):
                    out += self._frame(frames[start:end])
                start = end
            made = b"".join(out)
            return frames if frames.startswith(made) and len(made) == start else made + frames[start:]
        for frame in split_frames(frames):
            out += self._frame(frame)
        return b"".join(out)

    def _frame(self, frame: bytes) -> list[bytes]:
        if self._settled and _CALLS not in frame and b'"finish_reason":null' in frame:
            return [frame]
        data = data_of(frame)
        if data.strip() == _DONE:
            return [*self._let_go(), frame]
        try:
            chunk = orjson.loads(data)
        except orjson.JSONDecodeError:
            return [frame]
        choices = chunk.get("choices") if isinstance(chunk, dict) else None
        if not isinstance(choices, list) or not choices or chunk.get("error"):
            return [frame]
        self._head = chunk
        repaired = [self._choice(choice) for choice in choices]
        if all(made == [choice] for made, choice in zip(repaired, choices, strict=True)):
            return [frame]
        kept = [choice for made in repaired for choice in made]
        # Usage and the like belong to the last.
        plain = {name: value for name, value in chunk.items() if name not in {"usage", "timings"}}
        out = [_written({**plain, "choices": [choice]}) for choice in kept[:-1]]
        if kept or chunk.get("usage"):
            out.append(_written({**chunk, "choices": kept[-1:]}))
        return out

    def _choice(self, choice: Any) -> list[Any]:
        """Return what stands for one choice of a chunk: itself if it is right, nothing if nothing is left of it."""
        index = choice.get("index") if isinstance(choice, dict) else None
        state = self._choices.get(index or 0) if isinstance(index or 0, int) else None
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if state is None or not isinstance(delta, dict):
            return [choice]
        finish = choice.get("finish_reason")
        pieces = self._split_text(state, delta, finished=finish is not None)
        pieces[-1] = self._with_calls(state, pieces[-1])
        if finish is not None and finish != "length" and state.without_arguments:
            # Clients parse them; of a call without arguments they are an empty object.
            empty = [{"index": index, "function": {"arguments": "{}"}} for index in sorted(state.without_arguments)]
            pieces[-1:] = [pieces[-1], {"tool_calls": empty}, {}]
        if finish in _WRONG_FINISH and state.calls.count:
            finish = "tool_calls"
        if len(pieces) == 1 and pieces[0] == delta:
            return [choice if finish == choice.get("finish_reason") else {**choice, "finish_reason": finish}]
        made = [{**choice, "delta": piece, "finish_reason": None} for piece in pieces[:-1]]
        last = {**choice, "delta": pieces[-1], "finish_reason": finish}
        return [one for one in made if one["delta"]] + ([last] if pieces[-1] or finish is not None else [])

    def _split_text(self, state: _Choice, delta: JsonObject, *, finished: bool) -> list[JsonObject]:
        """Return the deltas that stand for one: thoughts between tags come before the text."""
        if state.tags.settled:
            return [delta]
        content = delta.get("content")
        if delta.get("reasoning_content") or delta.get("reasoning"):
            thought, text = "", state.tags.stop_looking()
            text += content if isinstance(content, str) else ""
        else:
            thought, text = state.tags.feed(content) if isinstance(content, str) else ("", "")
            if (finished or delta.get("tool_calls")) and not state.tags.settled:
                more_thought, more_text = state.tags.end()
                thought, text = thought + more_thought, text + more_text
        self._settled = all(choice.tags.settled for choice in self._choices.values())
        if not thought and text == (content or ""):
            return [delta]
        rest = {name: value for name, value in delta.items() if name not in {"content", "role"}}
        pieces: list[JsonObject] = [{"reasoning_content": thought, "reasoning": thought}] if thought else []
        if text:
            pieces.append({"content": text})
        if finished or rest or not pieces:
            # What was held back comes before the delta that ends the answer.
            pieces.append(rest)
        if "role" in delta:
            pieces[0] = {"role": delta["role"], **pieces[0]}
        return pieces

    def _with_calls(self, state: _Choice, delta: JsonObject) -> JsonObject:
        calls = delta.get("tool_calls")
        if not isinstance(calls, list) or not calls:
            return delta
        self._calls_seen = True
        kept = [made for call in calls if isinstance(call, dict) and (made := self._call(state, call)) is not None]
        if kept == calls:
            return delta
        rest = {name: value for name, value in delta.items() if name != "tool_calls"}
        return {**rest, "tool_calls": kept} if kept else rest

    def _call(self, state: _Choice, call: dict[str, Any]) -> JsonObject | None:
        """Return a piece of a call as OpenAI has it: id and name in its first piece, and nowhere else."""
        piece = state.calls.take(call)
        if self._one_call and piece.index > 0:
            return None
        if piece.arguments:
            state.without_arguments.discard(piece.index)
        elif piece.begins:
            state.without_arguments.add(piece.index)
        function = {**(call.get("function") or {}), "arguments": piece.arguments}
        if piece.begins:
            function["name"] = piece.name
            return {**call, "index": piece.index, "id": piece.id, "type": "function", "function": function}
        function.pop("name", None)
        rest = {name: value for name, value in call.items() if name not in {"id", "type"}}
        return {**rest, "index": piece.index, "function": function}

    def _let_go(self) -> list[bytes]:
        """Return what was held back of an answer that ends without having said why."""
        out: list[bytes] = []
        for index, state in self._choices.items():
            if state.tags.settled:
                continue
            thought, text = state.tags.end()
            for delta in ({"reasoning_content": thought, "reasoning": thought} if thought else {}, {"content": text}):
                if any(delta.values()):
                    choice = {"index": index, "delta": delta, "finish_reason": None}
                    out.append(_written({**self._head, "choices": [choice]}))
        self._settled = True
        return out


def _written(chunk: JsonObject) -> bytes:
    return b"data: " + orjson.dumps(chunk) + END

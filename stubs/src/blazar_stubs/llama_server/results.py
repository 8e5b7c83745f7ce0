"""What generations hand to whoever writes the answer."""

import time
from collections import deque
from typing import NamedTuple

from blazar_stubs.llama_server.knobs import Json
from blazar_stubs.llama_server.params import Params
from blazar_stubs.llama_server.reactor import Flag, Reactor


class ToolDelta(NamedTuple):
    """A piece of the call with that number; `name` and `id` come with the first."""

    number: int
    id: str
    name: str
    arguments: str


class Piece(NamedTuple):
    """One token's worth of an answer."""

    kind: str
    text: str
    tokens: tuple[int, ...] = ()
    tool: ToolDelta | None = None


class Choice:
    """One answer in the making: what a final result holds, and the running totals before it."""

    def __init__(self, index: int, params: Params, prompt: list[int], prompt_text: str) -> None:
        self.index = index
        self.is_child = False
        self.params = params
        self.prompt = prompt
        self.prompt_text = prompt_text
        self.slot = -1
        self.task = -1
        self.cached = 0
        self.decoded = 0
        self.content = ""
        self.reasoning = ""
        self.calls: list[Json] = []
        self.tokens: list[int] = []
        self.stop_type = "none"
        self.stopping_word = ""
        self.truncated = False
        self.finish: str | None = None
        self.finish_is_scripted = False
        self.usage: Json | None = None
        self.probabilities: list[Json] = []
        self.started_s = time.monotonic()
        self.prompt_ms = 0.0
        self.predicted_ms = 0.0
        self.chat_format = "Content-only"
        self.generation_prompt = ""

    @property
    def finish_reason(self) -> str | None:
        """OpenAI's word for how it ended."""
        if self.finish_is_scripted:
            return self.finish
        if self.stop_type in {"eos", "word"}:
            return "tool_calls" if self.calls else "stop"
        return "length"

    def add(self, piece: Piece) -> None:
        """Take a piece into the totals."""
        match piece.kind:
            case "content":
                self.content += piece.text
            case "reasoning":
                self.reasoning += piece.text
            case _:
                self._add_call(piece)

    def _add_call(self, piece: Piece) -> None:
        tool = piece.tool
        if tool is None:
            return
        if tool.name:
            call = {"type": "function", "function": {"name": tool.name, "arguments": ""}, "id": tool.id}
            self.calls.append(call)
        if self.calls:
            self.calls[-1]["function"]["arguments"] += tool.arguments

    def usage_shown(self) -> Json:
        """The ``usage`` object."""
        if self.usage is not None:
            return self.usage
        return {
            "completion_tokens": self.decoded,
            "prompt_tokens": len(self.prompt),
            "total_tokens": self.decoded + len(self.prompt),
            "prompt_tokens_details": {"cached_tokens": self.cached},
        }

    def timings(self) -> Json:
        """The ``timings`` object; rates of a single token are zero, as upstream's are."""
        evaluated = len(self.prompt) - self.cached
        intervals = self.decoded - 1
        prompt_ms = round(self.prompt_ms, 3) if evaluated else 0.0
        predicted_ms = max(0.001, round(self.predicted_ms, 3)) if self.decoded else 0.0
        return {
            "cache_n": self.cached,
            "prompt_n": evaluated,
            "prompt_ms": prompt_ms,
            "prompt_per_token_ms": prompt_ms / evaluated if evaluated else 0.0,
            "prompt_per_second": 1000.0 * evaluated / prompt_ms if prompt_ms else 0.0,
            "predicted_n": self.decoded,
            "predicted_ms": predicted_ms,
            "predicted_per_token_ms": predicted_ms / intervals if intervals > 0 else 0.0,
            "predicted_per_second": 1000.0 * intervals / predicted_ms if intervals > 0 else 0.0,
        }


class Begin(NamedTuple):
    """The prompt is about to be evaluated: time to send headers."""

    choice: Choice


class Progress(NamedTuple):
    """How far the prompt is evaluated."""

    choice: Choice
    facts: Json
    timings: Json | None = None


class Partial(NamedTuple):
    """A token was made."""

    choice: Choice
    piece: Piece
    is_first: bool
    decoded: int
    probability: Json | None = None
    timings: Json | None = None


class Scripted(NamedTuple):
    """A chunk from a script."""

    choice: Choice
    chunk: Json
    is_first: bool


class Final(NamedTuple):
    """A choice is complete."""

    choice: Choice


class Failure(NamedTuple):
    """A choice failed."""

    body: Json
    status: int


Result = Begin | Progress | Partial | Scripted | Final | Failure


class Results:
    """A queue of results, between generations and one writer."""

    def __init__(self, reactor: Reactor, choices: int) -> None:
        self._queue: deque[Result] = deque()
        self._some = Flag(reactor)
        self._left = choices
        self.is_shared = choices > 1
        self.cancelled = False

    def put(self, result: Result) -> None:
        """Add a result."""
        self._queue.append(result)
        self._some.set()

    def poke(self) -> None:
        """End a wait without a result, so that the writer looks up."""
        self._some.set()

    @property
    def is_over(self) -> bool:
        """Whether all finals were taken."""
        return self._left == 0

    async def get(self, timeout_s: float | None = None) -> Result | None:
        """The next result; None when none came in time, or the wait was ended by `poke`."""
        if not self._queue:
            self._some.clear()
            await self._some.wait(timeout_s)
        if not self._queue:
            return None
        result = self._queue.popleft()
        if isinstance(result, Final | Failure):
            self._left -= 1
        return result

"""One answer of an engine: from the bytes of its stream to canonical events, the repairs of all dialects included.

Beside :class:`~blazar_gateway.dialects.chat_events.ChatEvents`, which repairs single chunks: thoughts in tags are taken
out of the text; stop strings are looked for, since engines do not say which was met; calls beyond the first are
dropped for a client that takes one at a time; tokens are counted also of an answer that breaks off or is stopped.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from blazar_gateway.dialects.chat_events import ChatEvents
from blazar_gateway.dialects.engine_chunks import parse_frames, plain_text
from blazar_gateway.dialects.events import (
    Event,
    Finished,
    FinishReason,
    Reasoning,
    Started,
    Text,
    Texts,
    ToolCallArguments,
    ToolCallStarted,
    UsageReported,
)
from blazar_gateway.dialects.json_objects import JsonObject
from blazar_gateway.dialects.sse import FrameBuffer
from blazar_gateway.dialects.stop_words import StopWords
from blazar_gateway.dialects.think_tags import ThinkTags


class EngineStream:
    """One answer's state.

    Args:
        new_call_id: Makes an id for a tool call that came without one.
        one_call: Keep only the first tool call.
        stop_words: Strings at which the answer ends; they are not shown.
        thinks: Whether thoughts may stand between tags in the text; a text that is filled in has none.

    Attributes:
        finished: Whether the model said why it stopped, or met a stop string.
        stopped: Whether a stop string was met: what the engine still says is of no interest.
        error: The ``error`` object that the engine put into the stream, or ``None``.
    """

    __slots__ = (
        "_buffer",
        "_entries",
        "_events",
        "_one_call",
        "_pieces",
        "_reported",
        "_stop",
        "_tags",
        "_timings",
        "error",
        "finished",
        "stopped",
    )

    def __init__(
        self,
        *,
        new_call_id: Callable[[], str],
        one_call: bool = False,
        stop_words: Sequence[str] = (),
        thinks: bool = True,
    ) -> None:
        self._buffer = FrameBuffer()
        self._events = ChatEvents(new_call_id=new_call_id)
        self._one_call = one_call
        self._stop = StopWords(stop_words) if stop_words else None
        self._tags = ThinkTags()
        if not thinks:
            self._tags.stop_looking()
        # Probabilities of text that is held back as long as it may begin with a tag.
        self._entries: list[Mapping[str, Any]] = []
        self._pieces = 0
        self._reported: UsageReported | None = None
        self._timings: Mapping[str, Any] = {}
        self.finished = False
        self.stopped = False
        self.error: JsonObject | None = None

    def feed(self, data: bytes) -> list[Event]:
        """Return the events that ``data`` completes."""
        frames = self._buffer.take(data)
        return self._take(frames) if frames else []

    def finish(self) -> list[Event]:
        """Return the events left when the engine has ended the stream in order."""
        rest = self._buffer.last()
        return self._take(rest) if rest else []

    def take_answer(self, answer: object) -> list[Event]:
        """Return the events of an answer that came in one piece."""
        out: list[Event] = []
        self._read(answer, out)
        return out

    def usage(self) -> UsageReported:
        """Return what has been used so far: the engine's own count, or else what was seen."""
        if self._reported is not None:
            return self._reported
        timings = self._timings
        cached, fresh = _count(timings, "cache_n"), _count(timings, "prompt_n")
        return UsageReported(
            prompt_tokens=cached + fresh,
            completion_tokens=_count(timings, "predicted_n") or self._pieces,
            cached_tokens=cached,
            prompt_ms=timings.get("prompt_ms"),
            predicted_ms=timings.get("predicted_ms"),
        )

    def _take(self, frames: bytes) -> list[Event]:
        out: list[Event] = []
        if self.stopped:
            return out
        chunks, _ = parse_frames(frames)
        texts: list[str] = []
        for chunk in chunks:
            # Nearly every chunk is one piece of text and nothing else.
            if self._plain and (text := plain_text(chunk)):
                texts.append(text)
                continue
            if texts:
                self._pieces += len(texts)
                out.append(Texts(texts))
                texts = []
            self._read(chunk, out)
            if self.stopped or self.error is not None:
                break
        if texts:
            self._pieces += len(texts)
            out.append(Texts(texts))
        return out

    @property
    def _plain(self) -> bool:
        """Whether text passes as it is: no tag can follow any more, and no stop string is looked for."""
        return self._stop is None and self._tags.settled

    def _read(self, chunk: object, out: list[Event]) -> None:
        if type(chunk) is not dict:
            return  # `data: null` between several prompts
        if error := chunk.get("error"):
            self.error = error if isinstance(error, dict) else {"message": str(error)}
            return
        if type(chunk.get("timings")) is dict:
            self._timings = chunk["timings"]
        for event in self._events.read(chunk):
            self._sift(event, out)
            if self.stopped:
                return

    def _sift(self, event: Event, out: list[Event]) -> None:
        match event:
            case Text(text, logprobs):
                self._pieces += 1
                self._text(text, logprobs, out)
            case Reasoning():
                self._pieces += 1
                if not self._tags.settled and (held := self._tags.stop_looking()):
                    self._show(held, self._kept_entries(), out)
                out.append(event)
            case ToolCallStarted() | ToolCallArguments():
                if not (self._one_call and event.index > 0):
                    self._let_go(out)
                    out.append(event)
            case Finished():
                self._let_go(out)
                if not self.stopped:
                    self.finished = True
                    out.append(event)
            case UsageReported():
                self._reported = event
                out.append(event)
            case Started():
                out.append(event)
            case _:
                out.append(event)

    def _text(self, text: str, entries: Sequence[Mapping[str, Any]], out: list[Event]) -> None:
        if not self._tags.settled:
            self._entries += entries
            thought, text = self._tags.feed(text)
            if thought:
                self._entries.clear()
                out.append(Reasoning(thought))
            entries = self._kept_entries() if text else ()
        self._show(text, entries, out)

    def _kept_entries(self) -> tuple[Mapping[str, Any], ...]:
        kept = tuple(self._entries)
        self._entries.clear()
        return kept

    def _show(self, text: str, entries: Sequence[Mapping[str, Any]], out: list[Event]) -> None:
        if self._stop is not None:
            text = self._stop.feed(text)
        if text:
            out.append(Text(text, tuple(entries)))
        if self._stop is not None and self._stop.met is not None:
            self.stopped = self.finished = True
            out.append(Finished(FinishReason.STOP, self._stop.met))
            out.append(self.usage())

    def _let_go(self, out: list[Event]) -> None:
        """Show what was held back: something else follows, so it was no beginning of a tag or stop string."""
        if not self._tags.settled:
            thought, text = self._tags.end()
            if thought:
                out.append(Reasoning(thought))
            if text:
                self._show(text, self._kept_entries(), out)
        if self._stop is not None and not self.stopped and (text := self._stop.end()):
            out.append(Text(text))


def _count(timings: Mapping[str, Any], name: str) -> int:
    value = timings.get(name)
    return int(value) if isinstance(value, int | float) else 0

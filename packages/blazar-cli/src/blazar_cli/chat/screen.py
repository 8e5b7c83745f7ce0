"""Writing a streamed answer: thinking dimmed on a terminal and left out of a pipe, a spinner while nothing comes."""

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from blazar_cli.chat.answer import Event, Finished, Note, Text, Thinking

if TYPE_CHECKING:
    from rich.status import Status

_DIM = "\x1b[2m"
_PLAIN = "\x1b[0m"


@dataclass(frozen=True, slots=True)
class Shown:
    """What was shown of an answer.

    Attributes:
        text: The answer, without thinking.
        finished: How it ended, or ``None`` when it was cut short.
        first_s: Seconds from asking to the first piece, or ``None`` when none came.
        total_s: Seconds from asking to the end.
    """

    text: str
    finished: Finished | None
    first_s: float | None
    total_s: float


class Screen:
    """Where an answer is written.

    Args:
        out: Standard output, or what stands for it.
        is_terminal: Whether a person is watching.
        show_thinking: Whether a person wants to see it.
    """

    def __init__(self, out: TextIO, *, is_terminal: bool, show_thinking: bool = True) -> None:
        self._out = out
        self._is_terminal = is_terminal
        self.show_thinking = show_thinking
        self._dimmed = False
        self._text: list[str] = []
        self._status: Status | None = None

    def show(self, model: str, events: Iterable[Event]) -> Shown:
        """Write the events as they come and return what they amounted to.

        An interruption (Ctrl-C) or an error leaves the terminal in order; what was shown until then is in
        :attr:`partial_text`.
        """
        self._text = []
        asked_s = time.monotonic()
        first_s: float | None = None
        finished: Finished | None = None
        self._wait(f"waiting for {model}")
        try:
            for event in events:
                if first_s is None and isinstance(event, Thinking | Text):
                    first_s = time.monotonic() - asked_s
                match event:
                    case Thinking(text):
                        self._write_thinking(text)
                    case Text(text):
                        self._write_text(text)
                    case Note(text):
                        self._wait(f"{model}: {text}" if text else None)
                    case Finished():
                        finished = event
        finally:
            self._end()
        return Shown(self.partial_text, finished, first_s, time.monotonic() - asked_s)

    @property
    def partial_text(self) -> str:
        """The answer's text so far."""
        return "".join(self._text)

    def _write_thinking(self, text: str) -> None:
        if not (self._is_terminal and self.show_thinking):
            return
        self._stop_waiting()
        if not self._dimmed:
            self._dimmed = True
            self._out.write(_DIM)
        self._out.write(text)
        self._out.flush()

    def _write_text(self, text: str) -> None:
        self._stop_waiting()
        if self._dimmed:
            self._dimmed = False
            self._out.write(f"{_PLAIN}\n\n")
        self._text.append(text)
        self._out.write(text)
        self._out.flush()

    def _wait(self, text: str | None) -> None:
        if not self._is_terminal or text is None or self._text:
            return
        if self._status is None:
            from rich.console import Console  # a pipe does not wait for it
            from rich.markup import escape

            self._status = Console(file=sys.stderr).status(escape(text))
            self._status.start()
        else:
            from rich.markup import escape

            self._status.update(escape(text))

    def _stop_waiting(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _end(self) -> None:
        self._stop_waiting()
        if self._dimmed:
            self._dimmed = False
            self._out.write(_PLAIN)
        if not self.partial_text.endswith("\n"):
            self._out.write("\n")
        self._out.flush()


def describe_speed(shown: Shown) -> str:
    """Return one line about tokens and speed."""
    finished = shown.finished or Finished()
    parts = []
    if shown.first_s is not None:
        parts.append(f"first token {shown.first_s:.2f} s")
    prompt, answer = finished.usage.get("prompt_tokens"), finished.usage.get("completion_tokens")
    if isinstance(prompt, int):
        parts.append(f"prompt {prompt} tokens{_rate(finished, 'prompt_per_second')}")
    if isinstance(answer, int):
        parts.append(f"answer {answer} tokens{_rate(finished, 'predicted_per_second')}")
    parts.append(f"total {shown.total_s:.2f} s")
    return ", ".join(parts)


def _rate(finished: Finished, name: str) -> str:
    rate = finished.timings.get(name)
    return f" ({rate:.1f}/s)" if isinstance(rate, int | float) else ""

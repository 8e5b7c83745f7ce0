"""Asking through the official OpenAI client, as any program would."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from blazar_cli.client import read_error
from blazar_cli.errors import ApiRefused, CliError

if TYPE_CHECKING:
    import openai


_MAX_TOKENS = 160


class DemoUnanswered(CliError):
    """The connection broke, or the client could not make sense of the answer."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one question took.

    Attributes:
        load_s: Seconds until the model was ready for its first token.
        first_s: Seconds from asking to the first piece of the answer, the model being loaded.
        tokens: Generated.
        tokens_per_s: As the engine measured it, else by the clock.
    """

    load_s: float
    first_s: float
    tokens: int
    tokens_per_s: float


def load_model(client: "openai.OpenAI", model: str) -> float:
    """Have the model loaded by a request for one token, and return the seconds that loading took.

    Raises:
        ApiRefused: It could not be loaded; the text is the daemon's.
        DemoUnanswered: The connection broke.
    """
    asked_s = time.monotonic()
    with _teaching():
        raw = client.completions.with_raw_response.create(model=model, prompt="Hello", max_tokens=1)
    load_ms = raw.headers.get("x-blazar-load-ms")
    return float(load_ms) / 1000 if load_ms is not None else time.monotonic() - asked_s


def ask(
    client: "openai.OpenAI", model: str, prompt: str, *, as_chat: bool, write: Callable[[str], None], load_s: float
) -> Measured:
    """Ask, hand every piece to ``write`` as it comes, and return what it took.

    Args:
        client: Of the running daemon.
        model: The model's name.
        prompt: The question, or for a model without chat training the beginning of a text.
        as_chat: Whether the model was trained to chat.
        write: Shows a piece.
        load_s: Passed on into the result.

    Raises:
        ApiRefused: The daemon refused; the text is its own.
        DemoUnanswered: The answer broke off.
    """
    asked_s = time.monotonic()
    first_s: float | None = None
    tokens, rate = 0, 0.0
    with _teaching():
        for piece, usage, timings in _pieces(client, model, prompt, as_chat=as_chat):
            if piece:
                first_s = first_s if first_s is not None else time.monotonic() - asked_s
                write(piece)
            tokens = usage or tokens
            rate = timings or rate
    total_s = time.monotonic() - asked_s
    waited_s = first_s if first_s is not None else total_s
    if not rate and tokens > 1 and total_s > waited_s:
        rate = (tokens - 1) / (total_s - waited_s)
    return Measured(load_s=load_s, first_s=waited_s, tokens=tokens, tokens_per_s=rate)


def _pieces(client: "openai.OpenAI", model: str, prompt: str, *, as_chat: bool) -> Iterator[tuple[str, int, float]]:
    """Yield text, tokens generated so far (0: not said) and tokens per second (0: not said) of each chunk."""
    if as_chat:
        for chunk in client.chat.completions.create(
            model=model,
            messages=[{"role": "user", "content": prompt}],
            max_tokens=_MAX_TOKENS,
            temperature=0,
            stream=True,
            stream_options={"include_usage": True},
        ):
            text = chunk.choices[0].delta.content or "" if chunk.choices else ""
            yield text, chunk.usage.completion_tokens if chunk.usage else 0, _rate(chunk.model_extra)
        return
    for completion in client.completions.create(
        model=model,
        prompt=prompt,
        max_tokens=_MAX_TOKENS,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
    ):
        text = completion.choices[0].text if completion.choices else ""
        yield text, completion.usage.completion_tokens if completion.usage else 0, _rate(completion.model_extra)


def _rate(extra: dict[str, object] | None) -> float:
    timings = (extra or {}).get("timings")
    rate = timings.get("predicted_per_second") if isinstance(timings, dict) else None
    return float(rate) if isinstance(rate, int | float) else 0.0


@contextmanager
def _teaching() -> Iterator[None]:
    import openai

    try:
        yield
    except openai.APIStatusError as error:
        text, code = read_error(error.response.content) or (str(error), "")
        raise ApiRefused(text, code=code, http_status=error.status_code) from error
    except openai.APIError as error:
        raise DemoUnanswered(f"the question was not answered: {error}. See `blazar logs`.") from error

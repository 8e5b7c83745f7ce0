"""``keep_alive`` in every spelling that clients use.

Ollama's form is a Go duration (``5m``, ``1h30m``, ``1500ms``); numbers, and strings that hold a number, are seconds.
Anything negative is for ever, 0 unloads after the answer.
"""

from dataclasses import dataclass

from blazar_routing.durations import FOREVER_S, read_seconds
from blazar_routing.errors import InvalidRequest

_ACCEPTED = (
    'a number of seconds (300), a duration ("5m", "1h30m", "90s"), 0 to unload after the answer, '
    "or anything negative (-1) to keep the model for ever"
)


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """How long a model stays after its last request.

    Attributes:
        seconds: At least 0.0; ``None`` for ever.
    """

    seconds: float | None


def parse_keep_alive(value: object) -> KeepAlive | None:
    """Return what ``value`` asks for, or ``None`` when it asks for nothing (absent, null, empty).

    Raises:
        InvalidRequest: It is none of the accepted forms; the text lists them.
    """
    match value:
        case None:
            return None
        case bool():
            raise _refused(value)
        case int() | float():
            return _from_seconds(value, value)
        case str():
            text = value.strip()
            return _from_text(text) if text else None
        case _:
            raise _refused(value)


def _from_text(text: str) -> KeepAlive:
    seconds = read_seconds(text)
    if seconds is None:
        raise _refused(text)
    return _from_seconds(seconds, text)


def _from_seconds(seconds: int | float, given: object) -> KeepAlive:
    if seconds != seconds:  # NaN
        raise _refused(given)
    if seconds < 0 or seconds > FOREVER_S:
        return KeepAlive(None)
    return KeepAlive(float(seconds))


def _refused(given: object) -> InvalidRequest:
    shown = repr(given)
    if len(shown) > 40:
        shown = f"{shown[:40]}…"
    return InvalidRequest(f"keep_alive {shown} is not understood. It takes {_ACCEPTED}.", param="keep_alive")

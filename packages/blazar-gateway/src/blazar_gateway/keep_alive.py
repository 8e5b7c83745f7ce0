"""``keep_alive`` in every spelling that clients use.

Ollama's form is a Go duration (``5m``, ``1h30m``, ``1500ms``); numbers, and strings that hold a number, are seconds.
Anything negative is for ever, 0 unloads after the answer.
"""

import re
from dataclasses import dataclass

from blazar_routing.errors import InvalidRequest

FOREVER_S = 100 * 366 * 24 * 3600.0
"""What lies further away than this many seconds (a century) is for ever; a countdown to it would overflow a date."""

_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"([+-]?)((?:{_PART.pattern})+)")

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
    if _NUMBER.fullmatch(text):
        return _from_seconds(float(text), text)
    duration = _DURATION.fullmatch(text)
    if duration is None:
        raise _refused(text)
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(duration[2]))
    return _from_seconds(-seconds if duration[1] == "-" else seconds, text)


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

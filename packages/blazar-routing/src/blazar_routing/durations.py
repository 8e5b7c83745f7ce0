"""Durations as clients and environments write them: Go's form (``5m``, ``1h30m``, ``1500ms``), or plain seconds."""

import re

FOREVER_S = 100 * 366 * 24 * 3600.0
"""What lies further away than this many seconds (a century) is for ever; a countdown to it would overflow a date."""

_UNIT_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)")
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"([+-]?)((?:{_PART.pattern})+)")


def read_seconds(text: str) -> float | None:
    """Return the seconds that ``text`` says, negative ones too, or ``None`` when it is no duration.

    Args:
        text: Without blanks around it.
    """
    if _NUMBER.fullmatch(text):
        return float(text)
    duration = _DURATION.fullmatch(text)
    if duration is None:
        return None
    seconds = sum(float(number) * _UNIT_S[unit] for number, unit in _PART.findall(duration[2]))
    return -seconds if duration[1] == "-" else seconds

"""Lists of names the engine knows, from ``names.txt`` beside this module."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def _sections() -> Mapping[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    current = ""
    for line in (files(__package__) / "names.txt").read_text("utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            current = line[1:-1]
            found[current] = frozenset()
        elif line and not line.startswith("#"):
            found[current] |= frozenset(line.split())
    return found


def names(section: str) -> frozenset[str]:
    """The names in one section."""
    return _sections()[section]

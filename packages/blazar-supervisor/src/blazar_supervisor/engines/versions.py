"""What a build says of itself with ``--version``. A pure parser of the text."""

import re
from dataclasses import dataclass

_COUNTED = re.compile(r"^version: (\d+) \(([0-9a-f]+|unknown)\)", re.MULTILINE)
_SEMANTIC = re.compile(r"^version: (\S+) \(build (\d+), commit ([0-9a-f]+|unknown)\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BuildVersion:
    """What ``--version`` said.

    Attributes:
        version: The number or semantic version, as printed.
        build: The build counter, or ``None``; repackaged builds say 1 (a shallow clone), so it decides nothing.
        commit: Abbreviated hash, or ``""``: the identity of a build.
    """

    version: str
    build: int | None
    commit: str


def parse_version(text: str) -> BuildVersion | None:
    """Return the version in ``text``, wherever it stands: GPU builds print lines about devices first."""
    if match := _SEMANTIC.search(text):
        return BuildVersion(match[1], int(match[2]), _commit(match[3]))
    if match := _COUNTED.search(text):
        return BuildVersion(match[1], int(match[1]), _commit(match[2]))
    return None


def _commit(text: str) -> str:
    return "" if text == "unknown" else text

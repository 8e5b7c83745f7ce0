"""The flags a build has, read from its own ``--help``.

The format is llama.cpp's: an entry starts at column 0 with a dash; its spellings are separated by commas; a
placeholder for the value follows the last spelling; the description stands at column 40 or on the next lines.
Only column 0 is read, because descriptions mention flags too. Entries whose text starts with "the argument has
been removed" are tombstones: they parse like flags, and using one ends the engine.
"""

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_COLUMN = 40
_SPELLING = re.compile(r"-{1,2}[A-Za-z0-9][A-Za-z0-9._-]*")
_SEVERAL_VALUES = re.compile(r"[A-Z][A-Z0-9_]*( [A-Z][A-Z0-9_]*)+")
_REMOVED = "the argument has been removed"


@dataclass(frozen=True, slots=True)
class Flag:
    """One entry of the help text.

    Attributes:
        spellings: Every way to write it, negations included, as they stand.
        placeholder: The text that stands for its value, ``""`` when it takes none.
        text: The description, in one line.
    """

    spellings: tuple[str, ...]
    placeholder: str
    text: str

    @property
    def values(self) -> int:
        """How many arguments it takes: 0, 1, or more for placeholders such as ``START END``."""
        if not self.placeholder:
            return 0
        return len(self.placeholder.split()) if _SEVERAL_VALUES.fullmatch(self.placeholder) else 1

    @property
    def removed(self) -> bool:
        """Whether the build only remembers the flag, to say that it is gone."""
        return self.text.startswith(_REMOVED)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The flags of one build.

    Attributes:
        flags: In the order of the help text, tombstones included.
        folds_underscores: Whether the engine takes ``--flash_attn`` for ``--flash-attn``.
    """

    flags: tuple[Flag, ...]
    folds_underscores: bool = True
    _by_spelling: dict[str, Flag] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        self._by_spelling.update({self.fold(name): flag for flag in self.flags for name in flag.spellings})

    def fold(self, spelling: str) -> str:
        """Return ``spelling`` as it is looked up."""
        return spelling.replace("_", "-") if self.folds_underscores else spelling

    def find(self, spelling: str) -> Flag | None:
        """Return the usable flag that ``spelling`` names, or ``None``."""
        flag = self._by_spelling.get(self.fold(spelling))
        return None if flag is None or flag.removed else flag

    def find_removed(self, spelling: str) -> Flag | None:
        """Return the tombstone that ``spelling`` names, or ``None``."""
        flag = self._by_spelling.get(self.fold(spelling))
        return flag if flag is not None and flag.removed else None

    def first_of(self, spellings: Iterable[str]) -> str | None:
        """Return the first of ``spellings`` that the build has, or ``None``."""
        return next((spelling for spelling in spellings if self.find(spelling) is not None), None)

    def nearest(self, spelling: str) -> str | None:
        """Return the usable spelling that resembles ``spelling`` most, or ``None`` when none does."""
        usable = [name for name, flag in self._by_spelling.items() if not flag.removed]
        close = difflib.get_close_matches(self.fold(spelling), usable, n=1, cutoff=0.6)
        return close[0] if close else None


def parse_help(text: str, *, folds_underscores: bool = True) -> Manifest:
    """Return the flags that a help text lists; none when it is not such a text."""
    return Manifest(tuple(_entries(text)), folds_underscores=folds_underscores)


def _entries(text: str) -> Iterator[Flag]:
    head: str | None = None
    described: list[str] = []
    for line in [*text.splitlines(), "-"]:
        if line.startswith("-") and not line.startswith("-----"):
            if head is not None and (flag := _flag(head, described)) is not None:
                yield flag
            # A long left part stands alone and the description begins on the next line.
            cut = _COLUMN if len(line) > _COLUMN and line[_COLUMN - 1] == " " else len(line)
            head, described = line[:cut], [line[cut:].strip()]
        elif line.startswith(" " * _COLUMN):
            described.append(line.strip())


def _flag(head: str, described: list[str]) -> Flag | None:
    words = head.split()
    spellings: list[str] = []
    more = True
    while words and more:
        more = words[0].endswith(",")
        name = words[0].rstrip(",")
        if not _SPELLING.fullmatch(name):
            break
        spellings.append(name)
        words.pop(0)
    if not spellings:
        return None
    return Flag(tuple(spellings), " ".join(words), " ".join(word for word in described if word))

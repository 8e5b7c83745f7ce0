"""The command line, parsed against the real ``--help`` text.

The text decides which spellings exist, which take a value, which were removed, and which environment variable
stands in for them; `_CHECKS` adds the values that upstream itself refuses (arg.cpp). Errors are upstream's,
byte for byte.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

_SPELLING = re.compile(r"-{1,2}[A-Za-z0-9][A-Za-z0-9._-]*")
_ENV = re.compile(r"\(env: ([A-Z0-9_]+)\)")
_REMOVED = "the argument has been removed"

_FLOAT_NAMES = """
    --temp --top-p --min-p --top-nsigma --xtc-probability --xtc-threshold --typical --repeat-penalty
    --presence-penalty --frequency-penalty --dry-multiplier --dry-base --adaptive-target --adaptive-decay
    --dynatemp-range --dynatemp-exp --mirostat-lr --mirostat-ent --rope-scale --rope-freq-base --rope-freq-scale
    --yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast --spec-draft-p-split
    --spec-draft-p-min -sps
"""
_FLOATS = frozenset(_FLOAT_NAMES.split())
"""First spellings of the flags whose N is a real number (arg.cpp, std::stof)."""

_WHOLE = frozenset(["N", "SEED", "PORT", "SECONDS", "INDEX", "<0...100>", "<0|1>"])
_WORDS = frozenset(["-ngl", "--n-gpu-layers", "--spec-draft-ngl"])
"""Flags whose N may also be a word."""


class Flag(NamedTuple):
    """One entry of the help text."""

    spellings: tuple[str, ...]
    placeholder: str
    block: str
    env: str | None
    removed: str | None


class UsageError(Exception):
    """The command line is refused; the text is all that goes to stderr, and the exit code is 1."""


def parse_help(text: str) -> list[Flag]:
    """Read the entries of a help text (llamacpp.md, section 5.1)."""
    flags: list[Flag] = []
    block: list[str] = []
    for line in [*text.splitlines(), "-----"]:
        if line.startswith("-"):
            if block:
                flags.append(_entry(block))
            block = [] if line.startswith("-----") else [line]
        elif block:
            block.append(line)
    return flags


def _entry(block: list[str]) -> Flag:
    while not block[-1].strip():
        block.pop()
    head = block[0]
    left = head[:40] if len(head) > 39 and head[39] == " " else head
    spellings: list[str] = []
    rest = left.split()
    while rest and _SPELLING.fullmatch(rest[0].rstrip(",")):
        last = not rest[0].endswith(",")
        spellings.append(rest.pop(0).rstrip(","))
        if last:
            break
    description = " ".join([head[len(left) :].strip(), *(line.strip() for line in block[1:])]).strip()
    env = _ENV.search(description)
    removed = _ENV.sub("", description).strip() if description.startswith(_REMOVED) else None
    return Flag(tuple(spellings), " ".join(rest), "\n".join(block), env.group(1) if env else None, removed)


class CommandLine:
    """What was asked for: every flag by its first spelling, with the spelling used last and its value."""

    def __init__(self, flags: Sequence[Flag], argv: Sequence[str], environ: Mapping[str, str]) -> None:
        self._by_spelling = {spelling: flag for flag in flags for spelling in flag.spellings}
        self._found: dict[str, tuple[str, str]] = {}
        self.warnings: list[str] = []
        for flag in flags:
            value = environ.get(flag.env) if flag.env else None
            if value:
                self._found[flag.spellings[0]] = (flag.spellings[-1], value)
        self._parse(argv, environ)

    def _parse(self, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        rest = list(argv)
        while rest:
            given = rest.pop(0)
            # Upstream folds underscores in long flags before it looks them up.
            spelling = given.replace("_", "-") if given.startswith("--") else given
            flag = self._by_spelling.get(spelling) or self._by_spelling.get(given)
            if flag is None:
                raise UsageError(f"error: invalid argument: {spelling}")
            if flag.env and environ.get(flag.env):
                self.warnings.append(
                    f"warn: {flag.env} environment variable is set, but will be overwritten by command line "
                    f"argument {spelling}"
                )
            if not flag.placeholder:
                self._found[flag.spellings[0]] = (spelling, "")
                continue
            problem: str | None = None
            if not rest:
                problem = "expected value for argument"
            else:
                value = rest.pop(0)
                problem = flag.removed or _problem_with(flag, value)
                self._found[flag.spellings[0]] = (spelling, value)
            if problem is not None:
                raise UsageError(
                    f'error while handling argument "{spelling}": {problem}\n\n'
                    f"usage:\n{flag.block}\n\n\nto show complete usage, run with -h"
                )

    def _key(self, spelling: str) -> str:
        flag = self._by_spelling.get(spelling)
        return flag.spellings[0] if flag else spelling

    def text(self, spelling: str, default: str = "") -> str:
        """The value of a flag, or the default."""
        return self._found.get(self._key(spelling), ("", default))[1]

    def number(self, spelling: str, default: int) -> int:
        """The value of a flag whose value is a whole number; words count as the default."""
        found = leading_int(self.text(spelling))
        return default if found is None else found

    def switch(self, spelling: str, default: bool | None = None) -> bool | None:
        """Whether a flag without a value was given in its positive form, its negative form, or not."""
        found = self._found.get(self._key(spelling))
        if found is None:
            return default
        used, value = found
        if value in {"0", "off", "false", "disabled"}:
            return False
        return not used.startswith(("--no-", "-no", "-nkvo", "-nr", "-nocb"))

    def given(self, spelling: str) -> bool:
        """Whether a flag was given at all."""
        return self._key(spelling) in self._found


def leading_int(text: str) -> int | None:
    """What C's stoi makes of a text: leading blanks, a sign, digits; the rest is ignored."""
    match = re.match(r"\s*([+-]?\d+)", text)
    return int(match.group(1)) if match else None


def _leading_float(text: str) -> float | None:
    match = re.match(r"\s*[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+|inf|nan)", text)
    return float(match.group(0)) if match else None


def _problem_with(flag: Flag, value: str) -> str | None:
    first = flag.spellings[0]
    whole = leading_int(value)
    if first in _FLOATS:
        if _leading_float(value) is None:
            return "stof"
    elif flag.placeholder in _WHOLE and whole is None and not (first in _WORDS and value in {"auto", "all"}):
        return "stoi"
    check = _CHECKS.get(first)
    return check(value) if check else None


def _one_of(*words: str, problem: str = "invalid value") -> Callable[[str], str | None]:
    return lambda value: None if value in words else problem


def _within(low: int, high: int, problem: str = "invalid value") -> Callable[[str], str | None]:
    return lambda value: None if low <= (leading_int(value) or 0) <= high else problem


def _directory(value: str) -> str | None:
    try:
        mode = os.stat(value).st_mode  # noqa: PTH116 - importing pathlib doubles the start-up time
    except OSError:
        mode = 0
    return None if stat.S_ISDIR(mode) else f"not a directory: {value}"


def _readable(value: str) -> str | None:
    return None if os.access(value, os.R_OK) else f"error: failed to open file '{value}'\n"


def _not_zero(value: str) -> str | None:
    return "error: invalid value for n_parallel\n" if leading_int(value) == 0 else None


def _sleep_seconds(value: str) -> str | None:
    seconds = leading_int(value) or 0
    return "invalid value: cannot be 0 or less than -1" if seconds == 0 or seconds < -1 else None


def _flash(value: str) -> str | None:
    known = value in {"on", "off", "auto", "1", "0", "-1", "enabled", "disabled", "true", "false"}
    return None if known else f"error: unknown value for --flash-attn: '{value}'\n"


_CHECKS: dict[str, Callable[[str], str | None]] = {
    "-np": _not_zero,
    "--sleep-idle-seconds": _sleep_seconds,
    "--slot-save-path": _directory,
    "--api-key-file": _readable,
    "--chat-template-file": _readable,
    "--pooling": _one_of("none", "mean", "cls", "last", "rank"),
    "-sm": _one_of("none", "layer", "row", "tensor"),
    "-fa": _flash,
    "--prio": _within(-1, 3),
    "--prio-batch": _within(0, 3),
    "--reasoning-budget": _within(-1, 2**31),
    "--rope-scaling": _one_of("none", "linear", "yarn"),
    "--numa": _one_of("distribute", "isolate", "numactl"),
}

"""The grammar of Modelfiles, strictly: text into instructions, each with the line it begins in. Pure.

A line is empty, a comment (``#`` first), or an instruction, in any case, with its value. A value that begins with three
double quotes goes on to the next three at the end of a line, over as many lines as it takes; one that begins with one
double quote to the next one at the end of a line. Nothing is escaped inside. What Ollama writes with
``show --modelfile`` is read.
"""

import codecs
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

INSTRUCTIONS = ("FROM", "PARAMETER", "TEMPLATE", "SYSTEM", "ADAPTER", "LICENSE", "MESSAGE")
IGNORED = ("RENDERER", "PARSER", "REQUIRES")
"""Instructions for what is inside Ollama; read, and left out with a word."""

_ROLES = ("system", "user", "assistant")
_NAMED = frozenset({"PARAMETER", "MESSAGE"})
_ONCE = frozenset({"TEMPLATE", "SYSTEM"})
_MOST_BYTES = 4 << 20


class BadModelfile(Exception):
    """A mistake in a Modelfile.

    Args:
        line: Where, from 1.
        reason: What is wrong and what would be right.
    """

    def __init__(self, line: int, reason: str) -> None:
        self.line = line
        self.reason = reason
        super().__init__(f"line {line}: {reason}")


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    Attributes:
        line: Where it begins, from 1.
        keyword: In capitals.
        name: A parameter's name or a message's role, in lower case; else ``""``.
        value: Without its quotes.
    """

    line: int
    keyword: str
    name: str
    value: str


def decode_modelfile(data: bytes) -> str:
    """Return a Modelfile's text: UTF-8, or UTF-16 with a byte order mark, as editors on Windows write it.

    Raises:
        BadModelfile: It is no text, or far too long for one.
    """
    if len(data) > _MOST_BYTES:
        raise BadModelfile(
            1,
            f"the file has {len(data)} bytes, and a Modelfile has {_MOST_BYTES} at most: it is a text that names the "
            "weights",
        )
    encoding = "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadModelfile(line, "this is not UTF-8 text; a Modelfile is a text that names the weights") from None
    if "\0" in text:
        raise BadModelfile(text[: text.index("\0")].count("\n") + 1, "there is a null byte, so this is no Modelfile")
    return text


def parse_modelfile(text: str) -> tuple[Instruction, ...]:
    """Return the instructions in their order.

    Raises:
        BadModelfile: The first mistake.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    found: list[Instruction] = []
    first: dict[str, int] = {}
    number = 0
    while number < len(lines):
        begin, line = number, lines[number].strip()
        number += 1
        if not line or line.startswith("#"):
            continue
        keyword, name, rest = _head(begin + 1, line)
        value, number = _value(rest, lines, number, begin + 1)
        if not value and keyword not in {"SYSTEM", "TEMPLATE", "MESSAGE", "LICENSE"}:
            raise BadModelfile(begin + 1, f"{keyword} has no value. {_FORMS[keyword]}")
        if keyword in _ONCE and first.setdefault(keyword, begin + 1) != begin + 1:
            raise BadModelfile(begin + 1, f"a second {keyword}; the first is in line {first[keyword]}. Leave one.")
        found.append(Instruction(begin + 1, keyword, name, value))
    return tuple(found)


_FORMS = {
    "FROM": "Write FROM and a model's name or a .gguf file.",
    "PARAMETER": "Write PARAMETER, its name and its value: PARAMETER temperature 0.7",
    "TEMPLATE": 'Write TEMPLATE and the text, in """ if it has several lines.',
    "SYSTEM": 'Write SYSTEM and the text, in """ if it has several lines.',
    "ADAPTER": "Write ADAPTER and a LoRA adapter's .gguf file.",
    "LICENSE": 'Write LICENSE and the text, in """ if it has several lines.',
    "MESSAGE": "Write MESSAGE, a role and the text: MESSAGE user Hello",
    "RENDERER": "It is for Ollama alone: leave it out.",
    "PARSER": "It is for Ollama alone: leave it out.",
    "REQUIRES": "It is for Ollama alone: leave it out.",
}


def _head(line: int, text: str) -> tuple[str, str, str]:
    """Split a line into keyword, name and the beginning of its value."""
    word, _, rest = _split(text)
    keyword = word.upper()
    if keyword not in _FORMS:
        near = difflib.get_close_matches(keyword, INSTRUCTIONS, n=1, cutoff=0.6)
        meant = f" Did you mean {near[0]}?" if near else ""
        raise BadModelfile(
            line,
            f"'{word[:40]}' is no instruction.{meant} There are {', '.join(INSTRUCTIONS)}; "
            'a text of several lines stands in """.',
        )
    if keyword not in _NAMED:
        return keyword, "", rest
    name, _, rest = _split(rest)
    if not name:
        raise BadModelfile(line, f"{keyword} has no value. {_FORMS[keyword]}")
    if keyword == "MESSAGE" and name.lower() not in _ROLES:
        raise BadModelfile(line, f"'{name[:40]}' is no role of a MESSAGE: it is system, user or assistant.")
    return keyword, name.lower(), rest


def _split(text: str) -> tuple[str, str, str]:
    for index, char in enumerate(text):
        if char.isspace():
            return text[:index], char, text[index:].lstrip()
    return text, "", ""


def _value(rest: str, lines: list[str], number: int, begun: int) -> tuple[str, int]:
    """Return a value without quotes, and the number of lines read so far."""
    for quote in ('"""', '"'):
        if rest.startswith(quote):
            return _quoted(quote, rest.removeprefix(quote), lines, number, begun)
    return rest, number


def _quoted(quote: str, rest: str, lines: list[str], number: int, begun: int) -> tuple[str, int]:
    taken = [rest]
    for line in _from(lines, number):
        if taken[-1].rstrip().endswith(quote):
            break
        taken.append(line)
    last = taken[-1].rstrip()
    if not last.endswith(quote):
        raise BadModelfile(begun, f"the text that begins with {quote} here does not end: put {quote} at its end.")
    taken[-1] = last.removesuffix(quote)
    return "\n".join(taken), number + len(taken) - 1


def _from(lines: list[str], number: int) -> Iterator[str]:
    return iter(lines[number:])

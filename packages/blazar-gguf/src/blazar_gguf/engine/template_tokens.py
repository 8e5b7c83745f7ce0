"""Cutting a chat template into tokens, as the engine's own lexer does."""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final


class TemplateSyntaxError(ValueError):
    """The template does not parse; the text says why."""


class Kind(Enum):
    """Kinds of tokens."""

    TEXT = auto()
    COMMENT = auto()
    OPEN_STATEMENT = auto()
    CLOSE_STATEMENT = auto()
    OPEN_EXPRESSION = auto()
    CLOSE_EXPRESSION = auto()
    NAME = auto()
    NUMBER = auto()
    STRING = auto()
    UNARY = auto()
    COMPARISON = auto()
    ADDITIVE = auto()
    MULTIPLICATIVE = auto()
    EQUALS = auto()
    PUNCTUATION = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """One token and the place in the text where it starts."""

    kind: Kind
    text: str
    at: int = 0


_OPERATORS: Final = (
    ("{%-", Kind.OPEN_STATEMENT),
    ("-%}", Kind.CLOSE_STATEMENT),
    ("{{-", Kind.OPEN_EXPRESSION),
    ("-}}", Kind.CLOSE_EXPRESSION),
    ("{%", Kind.OPEN_STATEMENT),
    ("%}", Kind.CLOSE_STATEMENT),
    ("{{", Kind.OPEN_EXPRESSION),
    ("}}", Kind.CLOSE_EXPRESSION),
    *((c, Kind.PUNCTUATION) for c in "(){}[],.:|"),
    *((c, Kind.COMPARISON) for c in ("<=", ">=", "==", "!=", "<", ">")),
    *((c, Kind.ADDITIVE) for c in "+-~"),
    *((c, Kind.MULTIPLICATIVE) for c in "*/%"),
    ("=", Kind.EQUALS),
)
_OUTSIDE: Final = frozenset({Kind.CLOSE_STATEMENT, Kind.CLOSE_EXPRESSION, Kind.COMMENT, Kind.TEXT})
_OPERANDS: Final = frozenset({Kind.NAME, Kind.NUMBER, Kind.STRING})
_ESCAPES: Final = frozenset("ntrbfv\\'\"")


def _is_word(c: str) -> bool:
    return c.isascii() and (c.isalnum() or c == "_")


class _Lexer:
    """Cuts a template into tokens."""

    def __init__(self, text: str) -> None:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.text = text.removesuffix("\n")
        self.pos = 0
        self.braces = 0
        self.tokens: list[Token] = []

    def run(self) -> list[Token]:
        while self.pos < len(self.text):
            outside = not self.tokens or self.tokens[-1].kind in _OUTSIDE
            if outside and self._take_text():
                continue
            if self.text.startswith("{#", self.pos):
                self._take_comment()
                continue
            if not self._take_inside():
                break
        return self.tokens

    def _error(self, text: str) -> TemplateSyntaxError:
        line = self.text.count("\n", 0, self.pos) + 1
        return TemplateSyntaxError(f"line {line}: {text}")

    def _add(self, kind: Kind, text: str, start: int) -> None:
        self.tokens.append(Token(kind, text, start))

    def _take_text(self) -> bool:
        """Text up to the next tag; False when a tag starts here."""
        start = self.pos
        if self.tokens and self.tokens[-1].kind is Kind.TEXT:
            return False
        ends = [p for p in (self.text.find(tag, start) for tag in ("{%", "{{", "{#")) if p >= 0]
        self.pos = min(ends, default=len(self.text))
        if self.pos == start:
            return False
        self._add(Kind.TEXT, self.text[start : self.pos], start)
        return True

    def _take_comment(self) -> None:
        end = self.text.find("#}", self.pos + 2)
        if end < 0:
            raise self._error("a comment is not closed")
        self._add(Kind.COMMENT, self.text[self.pos + 2 : end], self.pos)
        self.pos = end + 2

    def _take_inside(self) -> bool:
        """One token inside a tag; False at the end of the text."""
        while self.pos < len(self.text) and self.text[self.pos].isspace():
            self.pos += 1
        if self.pos >= len(self.text):
            return False
        c = self.text[self.pos]
        closing = c == "-" and self.text[self.pos + 1 : self.pos + 2] in {"%", "}"}
        if c in "+-" and not closing and self._take_sign(c):
            return True
        if self._take_operator():
            return True
        start = self.pos
        if c in "'\"":
            self._take_string(c)
        elif c.isascii() and c.isdigit():
            self._take_number()
            self._add(Kind.NUMBER, self.text[start : self.pos], start)
        elif _is_word(c):
            while self.pos < len(self.text) and _is_word(self.text[self.pos]):
                self.pos += 1
            self._add(Kind.NAME, self.text[start : self.pos], start)
        else:
            raise self._error(f"unexpected character {c!r}")
        return True

    def _take_sign(self, c: str) -> bool:
        """A sign before an operand; False when it is a binary operator."""
        last = self.tokens[-1] if self.tokens else Token(Kind.END, "")
        if last.kind in {Kind.TEXT, Kind.END}:
            raise self._error(f"unexpected character {c!r}")
        if last.kind in _OPERANDS or last.text in {")", "]"}:
            return False
        start = self.pos
        self.pos += 1
        self._take_number()
        self._add(Kind.NUMBER if self.pos > start + 1 else Kind.UNARY, self.text[start : self.pos], start)
        return True

    def _take_number(self) -> None:
        digits = self._digits()
        if digits and self.text[self.pos : self.pos + 1] == "." and self.text[self.pos + 1 : self.pos + 2].isdigit():
            self.pos += 1
            self._digits()

    def _digits(self) -> bool:
        start = self.pos
        while self.pos < len(self.text) and self.text[self.pos] in "0123456789":
            self.pos += 1
        return self.pos > start

    def _take_operator(self) -> bool:
        for text, kind in _OPERATORS:
            if text == "}}" and self.braces > 0:
                continue
            if self.text.startswith(text, self.pos):
                self._add(kind, text, self.pos)
                self.pos += len(text)
                if kind is Kind.OPEN_EXPRESSION:
                    self.braces = 0
                elif text in "{}":
                    self.braces += 1 if text == "{" else -1
                return True
        return False

    def _take_string(self, quote: str) -> None:
        start = self.pos
        self.pos += 1
        while self.pos < len(self.text) and self.text[self.pos] != quote:
            if self.text[self.pos] == "\\":
                self.pos += 1
                if self.text[self.pos : self.pos + 1] not in _ESCAPES or self.pos >= len(self.text):
                    raise self._error("unknown escape character in a string")
            self.pos += 1
        if self.pos >= len(self.text):
            raise self._error("a string is not closed")
        self.pos += 1
        self._add(Kind.STRING, self.text[start + 1 : self.pos - 1], start)


def tokenize(text: str) -> list[Token]:
    """Cut a template into tokens.

    Raises:
        TemplateSyntaxError: an unclosed string or comment, an unknown escape, a character with no meaning.
    """
    return _Lexer(text).run()

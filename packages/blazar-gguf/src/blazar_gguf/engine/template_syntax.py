"""The grammar of chat templates as the engine's own Jinja reads it: does a template parse?

A template that does not parse stops llama-server at start-up. The engine's dialect is a subset of Jinja with a few
liberties (missing commas are forgiven, ``generation`` blocks are ignored), so another Jinja cannot answer for it.
Only the syntax is judged here; a template can still fail when it is rendered.

Plan: :func:`tokenize` cuts the text into tokens as lexers do, :class:`_Parser` descends through the grammar and raises
:class:`TemplateSyntaxError` where the engine would.
"""

from collections.abc import Callable
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
_MAX_DEPTH: Final = 150
"""Nesting beyond this is not followed; the engine's own recursion has a limit too, the stack."""


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


class _Parser:
    """Descends through the grammar; builds nothing."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._at = 0
        self._depth = 0

    def run(self) -> None:
        while self._at < len(self._tokens):
            self._any()

    # -- tokens ------------------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> Token:
        place = self._at + ahead
        return self._tokens[place] if place < len(self._tokens) else Token(Kind.END, "", len(self._text))

    def _next(self) -> Token:
        if self._at >= len(self._tokens):
            raise TemplateSyntaxError("the template ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _error(self, wanted: str) -> TemplateSyntaxError:
        token = self._peek()
        line = self._text.count("\n", 0, token.at) + 1
        got = "the end" if token.kind is Kind.END else repr(token.text[:30])
        return TemplateSyntaxError(f"line {line}: expected {wanted}, got {got}")

    def _is(self, text: str, kind: Kind = Kind.PUNCTUATION) -> bool:
        token = self._peek()
        return token.kind is kind and token.text == text

    def _is_name(self, name: str) -> bool:
        return self._is(name, Kind.NAME)

    def _expect(self, text: str) -> None:
        if not self._is(text):
            raise self._error(repr(text))
        self._at += 1

    def _expect_kind(self, kind: Kind, shown: str) -> None:
        if self._peek().kind is not kind:
            raise self._error(shown)
        self._at += 1

    def _close(self) -> None:
        self._expect_kind(Kind.CLOSE_STATEMENT, "'%}'")

    def _accept(self, text: str) -> bool:
        found = self._is(text)
        self._at += found
        return found

    def _at_statement(self, *names: str) -> bool:
        return (
            self._peek().kind is Kind.OPEN_STATEMENT and self._peek(1).kind is Kind.NAME and self._peek(1).text in names
        )

    def _end(self, name: str) -> None:
        """``{% name %}``."""
        self._expect_kind(Kind.OPEN_STATEMENT, "'{%'")
        if not self._is_name(name):
            raise self._error(name)
        self._at += 1
        self._close()

    def _nested(self, parse: Callable[[], None]) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise TemplateSyntaxError("the template is nested too deeply")
        parse()
        self._depth -= 1

    # -- statements --------------------------------------------------------------------------------------------

    def _any(self) -> None:
        match self._peek().kind:
            case Kind.TEXT | Kind.COMMENT:
                self._at += 1
            case Kind.OPEN_STATEMENT:
                self._nested(self._statement)
            case Kind.OPEN_EXPRESSION:
                self._at += 1
                self._expression()
                self._expect_kind(Kind.CLOSE_EXPRESSION, "'}}'")
            case _:
                raise self._error("text or a tag")

    def _body(self, *ends: str) -> None:
        while not self._at_statement(*ends):
            self._any()

    def _statement(self) -> None:
        self._at += 1
        if self._peek().kind is not Kind.NAME:
            raise self._error("the name of a statement")
        match self._next().text:
            case "set":
                self._set()
            case "if":
                self._if()
                self._end("endif")
            case "macro":
                self._primary()
                self._arguments()
                self._close()
                self._body("endmacro")
                self._end("endmacro")
            case "for":
                self._for()
                self._end("endfor")
            case "break" | "continue":
                self._close()
            case "call":
                self._call_block()
            case "filter":
                self._primary()
                if self._is("("):
                    self._call()
                self._close()
                self._body("endfilter")
                self._end("endfilter")
            case "generation" | "endgeneration":
                self._at += 1
            case other:
                raise TemplateSyntaxError(f"unknown statement {other!r}")

    def _set(self) -> None:
        self._sequence(self._expression)
        if self._peek().kind is Kind.EQUALS:
            self._at += 1
            self._sequence(self._expression)
            self._close()
            return
        self._close()
        self._body("endset")
        self._end("endset")

    def _if(self) -> None:
        self._expression()
        self._close()
        self._body("elif", "else", "endif")
        if self._at_statement("elif"):
            self._at += 2
            self._nested(self._if)
        elif self._at_statement("else"):
            self._at += 2
            self._close()
            self._body("endif")

    def _for(self) -> None:
        self._sequence(self._primary)
        if not self._is_name("in"):
            raise self._error("'in'")
        self._at += 1
        self._expression()
        self._close()
        self._body("endfor", "else")
        if self._at_statement("else"):
            self._at += 2
            self._close()
            self._body("endfor")

    def _call_block(self) -> None:
        if self._is("("):
            self._arguments()
        if self._peek().kind is not Kind.NAME:
            raise self._error("a name")
        self._at += 1
        self._arguments()
        self._close()
        self._body("endcall")
        self._end("endcall")

    # -- expressions -------------------------------------------------------------------------------------------

    def _sequence(self, parse: Callable[[], None]) -> None:
        parse()
        while self._accept(","):
            parse()

    def _expression(self) -> None:
        self._nested(self._ternary)

    def _ternary(self) -> None:
        self._or()
        if self._is_name("if"):
            self._at += 1
            self._or()
            if self._is_name("else"):
                self._at += 1
                self._nested(self._ternary)

    def _or(self) -> None:
        self._and()
        while self._is_name("or"):
            self._at += 1
            self._and()

    def _and(self) -> None:
        self._not()
        while self._is_name("and"):
            self._at += 1
            self._not()

    def _not(self) -> None:
        while self._is_name("not"):
            self._at += 1
        self._comparison()

    def _comparison(self) -> None:
        self._additive()
        while True:
            if self._is_name("not") and self._peek(1).kind is Kind.NAME and self._peek(1).text == "in":
                self._at += 2
            elif self._is_name("in") or self._peek().kind is Kind.COMPARISON:
                self._at += 1
            else:
                return
            self._additive()

    def _additive(self) -> None:
        self._multiplicative()
        while self._peek().kind is Kind.ADDITIVE:
            self._at += 1
            self._multiplicative()

    def _multiplicative(self) -> None:
        self._test()
        while self._peek().kind is Kind.MULTIPLICATIVE:
            self._at += 1
            self._test()

    def _test(self) -> None:
        self._filtered()
        while self._is_name("is"):
            self._at += 1
            if self._is_name("not"):
                self._at += 1
            self._primary()
            if self._is("("):
                self._call()

    def _filtered(self) -> None:
        self._member()
        while self._accept("|"):
            self._primary()
            if self._is("("):
                self._call()

    def _member(self) -> None:
        self._primary()
        self._subscripts()
        if self._is("("):
            self._call()

    def _call(self) -> None:
        while self._is("("):
            self._arguments()
            self._subscripts()

    def _arguments(self) -> None:
        self._expect("(")
        while not self._is(")"):
            if self._is("*", Kind.MULTIPLICATIVE):
                self._at += 1
                self._expression()
            else:
                self._expression()
                if self._peek().kind is Kind.EQUALS:
                    self._at += 1
                    self._expression()
            self._accept(",")
        self._at += 1

    def _subscripts(self) -> None:
        while True:
            if self._accept("."):
                self._primary()
            elif self._accept("["):
                while not self._is("]"):
                    if not self._accept(":"):
                        self._expression()
                        self._accept(":")
                self._at += 1
            else:
                return

    def _primary(self) -> None:
        token = self._next()
        if token.kind in {Kind.NAME, Kind.NUMBER}:
            return
        if token.kind is Kind.STRING:
            while self._peek().kind is Kind.STRING:
                self._at += 1
            return
        match token.text if token.kind is Kind.PUNCTUATION else "":
            case "(":
                self._sequence(self._expression)
                self._expect(")")
            case "[":
                while not self._is("]"):
                    self._expression()
                    self._accept(",")
                self._at += 1
            case "{":
                while not self._is("}"):
                    self._expression()
                    self._expect(":")
                    self._expression()
                    self._accept(",")
                self._at += 1
            case _:
                self._at -= 1
                raise self._error("a value")


def check_syntax(template: str) -> None:
    """Parse a template.

    Raises:
        TemplateSyntaxError: it does not parse.
    """
    _Parser(template).run()

"""The grammar of chat templates as the engine's own Jinja reads it: does a template parse?

A template that does not parse stops llama-server at start-up. The engine's dialect is a subset of Jinja with a few
liberties (missing commas are forgiven, ``generation`` blocks are ignored), so another Jinja cannot answer for it.
Only the syntax is judged here; a template can still fail when it is rendered.

Precedence does not matter for the question, so all binary operators are one loop; what matters is where ``not``, tests
and filters may stand.
"""

from collections.abc import Callable
from typing import Final

from blazar_gguf.engine.template_tokens import Kind, TemplateSyntaxError, Token, tokenize

_MAX_DEPTH: Final = 80
"""Nesting beyond this is not followed; the engine's own recursion has a limit too, its stack."""

_BINARY: Final = frozenset({Kind.COMPARISON, Kind.ADDITIVE, Kind.MULTIPLICATIVE})


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

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise TemplateSyntaxError("the template is nested too deeply")

    # -- statements --------------------------------------------------------------------------------------------

    def _any(self) -> None:
        match self._peek().kind:
            case Kind.TEXT | Kind.COMMENT:
                self._at += 1
            case Kind.OPEN_STATEMENT:
                self._deeper()
                self._statement()
                self._depth -= 1
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
        while self._at_statement("elif"):
            self._at += 2
            self._expression()
            self._close()
            self._body("elif", "else", "endif")
        if self._at_statement("else"):
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
        """A value, or ``a if b else c`` (chained; without ``else`` a selection)."""
        self._deeper()
        self._logical()
        while self._is_name("if"):
            self._at += 1
            self._logical()
            if not self._is_name("else"):
                break
            self._at += 1
            self._logical()
        self._depth -= 1

    def _logical(self) -> None:
        """Operands joined by operators; ``not`` may stand at the start and after ``and`` and ``or``."""
        while True:
            while self._is_name("not"):
                self._at += 1
            self._operand()
            while self._take_binary():
                self._operand()
            if not (self._is_name("or") or self._is_name("and")):
                return
            self._at += 1

    def _take_binary(self) -> bool:
        if self._is_name("not") and self._peek(1).kind is Kind.NAME and self._peek(1).text == "in":
            self._at += 2
            return True
        found = self._is_name("in") or self._peek().kind in _BINARY
        self._at += found
        return found

    def _operand(self) -> None:
        """A primary with members and calls, then filters, then tests."""
        self._primary()
        self._subscripts()
        self._call()
        while self._accept("|"):
            self._primary()
            self._call()
        while self._is_name("is"):
            self._at += 1
            if self._is_name("not"):
                self._at += 1
            self._primary()
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

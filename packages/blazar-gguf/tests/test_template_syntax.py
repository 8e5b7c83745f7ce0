import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gguf.engine.template_syntax import check_syntax
from blazar_gguf.engine.template_tokens import TemplateSyntaxError
from blazar_gguf.testing import CHAT_TEMPLATE


@pytest.mark.parametrize(
    "template",
    [
        "",
        "plain text with { and } and % and #",
        CHAT_TEMPLATE,
        "{{ a }}{# a comment with {% and {{ #}{{- b -}}\n",
        "{% if a %}1{% elif b is not none %}2{% elif c is defined and not d %}3{% else %}4{% endif %}",
        "{% for k, v in x.items() if v %}{{ loop.index0 }}{% else %}none{% endfor %}",
        "{% for x in y %}{% if x %}{% continue %}{% endif %}{% break %}{% endfor %}",
        "{% set ns = namespace(found=false, n=-1) %}{% set ns.found = true %}{% set a, b = 1, 2 %}",
        "{% set block %}text {{ a }}{% endset %}",
        "{% macro m(a, b='x', *c) %}{{ a }}{% endmacro %}{{ m(1, b=2) }}",
        "{% call(user) dump(users) %}{{ user }}{% endcall %}{% call plain() %}x{% endcall %}",
        "{% filter upper %}x{% endfilter %}{% filter indent(4, first=true) %}x{% endfilter %}",
        "{% generation %}{{ a }}{% endgeneration %}",
        "{{ a[0] }}{{ a[1:] }}{{ a[:-1] }}{{ a[1:2:3] }}{{ a[::2] }}{{ a['k']['l'].m(1)(2)[3] }}",
        "{{ {'a': 1, \"b\": [1, 2, (3, 4)], } }}{{ {} }}{{ [] }}",
        "{{ 'a' 'b' ~ \"c\" + -1.5 * 2 / 3 % 4 - +5 }}",
        "{{ a if b else c if d else e }}{{ a if b }}",
        "{{ x is string }}{{ x is divisibleby(3) }}{{ a | map(attribute='b') | list | length > 0 }}",
        "{{ 'it\\'s' }}{{ \"\\n\\t\\\\\" }}",
        "{{ a not in b and c in d or not e == f != g <= h >= i < j > k }}",
        "{{ f(a b) }}{{ [1 2] }}",
        "{{ {'a': {'b': 1}} }}",
        "{%- set x = 1 -%}\r\n{{-x-}}\r",
        "{% if a %}" + "{% elif b %}" * 500 + "{% endif %}",
    ],
)
def test_what_the_engine_parses_parses(template: str) -> None:
    check_syntax(template)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for x in %}", "expected a value, got '%}'"),
        ("{% if a %}", "expected text or a tag, got the end"),
        ("{% if a %}{% endfor %}", "unknown statement 'endfor'"),
        ("{{ a", "expected '}}', got the end"),
        ("{{ a }", "expected '}}'"),
        ("{{ 'a }}", "a string is not closed"),
        ("{{ '\\q' }}", "unknown escape"),
        ("{# a", "a comment is not closed"),
        ("{% frobnicate %}", "unknown statement 'frobnicate'"),
        ("{% 5 %}", "the name of a statement"),
        ("{{ a..b }}", "expected a value"),
        ("{{ a b }}", "expected '}}'"),
        ("{{ (a }}", "expected ')'"),
        ("{{ {'a' 1} }}", "expected ':'"),
        ("{% set = 1 %}", "expected a value, got '='"),
        ("{% for x of y %}{% endfor %}", "expected 'in'"),
        ("{% macro m %}{% endmacro %}", "expected '('"),
        ("{{ ü }}", "unexpected character 'ü'"),
        ("{{ a is }}", "expected a value"),
        ("one\ntwo\n{{ ) }}", "line 3"),
        ("{{ " + "(" * 1000 + "a" + ")" * 1000 + " }}", "nested too deeply"),
        ("{{ f(", "the template ends too early"),
    ],
)
def test_what_it_does_not_is_explained(template: str, message: str) -> None:
    with pytest.raises(TemplateSyntaxError) as caught:
        check_syntax(template)
    assert message in str(caught.value)


_WORDS = ["if", "else", "endif", "for", "in", "endfor", "set", "not", "is", "macro", "call", "filter"]
_MARKS = [
    "{%",
    "%}",
    "{{",
    "}}",
    "{#",
    "#}",
    "-",
    "a",
    "1",
    "'",
    '"',
    "\\",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    ":",
    "|",
    "=",
    "==",
    "+",
    "*",
]
_pieces = st.sampled_from([*_WORDS, *_MARKS, " ", "\n"])


@given(st.lists(_pieces, max_size=40))
def test_anything_either_parses_or_is_a_syntax_error(pieces: list[str]) -> None:
    with contextlib.suppress(TemplateSyntaxError):
        check_syntax("".join(pieces))

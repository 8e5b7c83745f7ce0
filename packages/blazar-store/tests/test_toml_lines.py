import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_store.toml_lines import KeyPath, line_of, locate_keys

DOCUMENT = '''\
# [not.a.table]
port = 1   # x = 2

"quoted key" = """
[models]
ctx = 1
"""
'single' = \'\'\'
x = 1\'\'\'
list = [
  1,  # ] comment
  "]",
  { a = 1 },
]
a.b."c d" = 1
[models."org/model:Q4"]  # comment
ctx = 4096
[ models . "x" . request ]
t = [[1], [2]]
[[keys]]
name = "one"
[keys.extra]
deep = true
[[keys]]
name = "two"
date = 1979-05-27
inline = { x = "}", y = [1, 2] }
end = 1
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param(("port",), 2, id="first key"),
        pytest.param(("quoted key",), 4, id="quoted key with a text over lines"),
        pytest.param(("single",), 8, id="literal text over lines"),
        pytest.param(("list",), 10, id="array over lines"),
        pytest.param(("a",), 15, id="first part of a dotted key"),
        pytest.param(("a", "b", "c d"), 15, id="dotted key"),
        pytest.param(("models",), 16, id="parent of a table"),
        pytest.param(("models", "org/model:Q4"), 16, id="table"),
        pytest.param(("models", "org/model:Q4", "ctx"), 17, id="key of a table"),
        pytest.param(("models", "x", "request", "t"), 19, id="header with spaces"),
        pytest.param(("keys", 0, "name"), 21, id="first element"),
        pytest.param(("keys", 0, "extra", "deep"), 23, id="table in an element"),
        pytest.param(("keys", 1, "name"), 25, id="second element"),
        pytest.param(("keys", 1, "inline"), 27, id="inline table"),
        pytest.param(("keys", 1, "end"), 28, id="after an inline table"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
def test_key_is_on_its_line(path: KeyPath, line: int, newline: str) -> None:
    text = DOCUMENT.replace("\n", newline)
    tomllib.loads(text)
    assert locate_keys(text)[path] == line


def test_nothing_else_is_taken_for_a_key() -> None:
    names = {path[-1] for path in locate_keys(DOCUMENT) if isinstance(path[-1], str)}
    assert names == {
        *("port", "quoted key", "single", "list", "a", "b", "c d", "models", "org/model:Q4", "ctx", "x", "request"),
        *("t", "keys", "name", "extra", "deep", "date", "inline", "end"),
    }


def test_line_of_something_inside_is_that_of_what_holds_it() -> None:
    lines = locate_keys(DOCUMENT)
    assert line_of(("list", 2, "a"), lines) == 10
    assert line_of(("absent",), lines) is None


VALUES = st.sampled_from(
    ["1", "-1.5", "true", '"a # b = [c]"', "'lit = \"'", '"""\nx = 1\n[y]\n"""', "'''a\n\nb'''", "[\n1, # ]\n2\n]", "[]",
     "{ a = 1, b = '}' }", "1979-05-27T07:32:00Z", '"\\"]"', '""', '["a", ["b", "]"]]', '"""quote " and \\""" end"""'],
)  # fmt: skip
GAPS = st.sampled_from(["", "\n", "# x = 1\n", "\n\n  # [t]\n", "\t\n"])


@given(st.lists(st.tuples(GAPS, VALUES, st.booleans()), max_size=12))
def test_every_key_of_a_document_is_found_where_it_was_put(parts: list[tuple[str, str, bool]]) -> None:
    text = ""
    expected: dict[KeyPath, int] = {}
    table: KeyPath = ()
    for number, (gap, value, new_table) in enumerate(parts):
        text += gap
        if new_table:
            table = (f"t{number}",)
            expected[table] = text.count("\n") + 1
            text += f"[t{number}]\n"
        expected[(*table, f"k{number}")] = text.count("\n") + 1
        text += f"k{number} = {value}  # end\n"
    tomllib.loads(text)
    assert locate_keys(text) == expected


@given(st.text(max_size=60))
def test_any_text_at_all_is_survived(text: str) -> None:
    locate_keys(text)

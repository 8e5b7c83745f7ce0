import pytest

from blazar_cli.chat.typed import Command, Lines, Message, Verb


def feed(*lines: str) -> list[object]:
    together = Lines()
    return [typed for line in lines if (typed := together.feed(line)) is not None]


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        pytest.param(["hello"], ["hello"], id="a line is a message"),
        pytest.param(["  indented"], ["  indented"], id="spaces in front are kept"),
        pytest.param(["", "   "], [], id="an empty line says nothing"),
        pytest.param(['"""one', "two", 'three"""'], ["one\ntwo\nthree"], id="triple quotes span lines"),
        pytest.param(['"""', "one", "", "two", '"""'], ["one\n\ntwo"], id="quotes on lines of their own"),
        pytest.param(['"""one line"""'], ["one line"], id="triple quotes on one line"),
        pytest.param(['"""', "  ", '"""'], [], id="nothing between the quotes"),
        pytest.param(['"""', "/bye", '"""'], ["/bye"], id="a command between quotes is text"),
        pytest.param(["/etc/hosts has a line too many"], ["/etc/hosts has a line too many"], id="a path is text"),
        pytest.param(["a", "b"], ["a", "b"], id="two messages"),
    ],
)
def test_messages_are_put_together_from_lines(lines: list[str], said: list[str]) -> None:
    assert feed(*lines) == [Message(text) for text in said]


@pytest.mark.parametrize(
    ("line", "verb", "rest"),
    [
        pytest.param("/bye", Verb.BYE, "", id="bye"),
        pytest.param("/exit", Verb.BYE, "", id="exit means bye"),
        pytest.param("/quit", Verb.BYE, "", id="quit means bye"),
        pytest.param("/?", Verb.HELP, "", id="question mark means help"),
        pytest.param("  /clear  ", Verb.CLEAR, "", id="spaces around"),
        pytest.param("/set system You are terse.", Verb.SET, "system You are terse.", id="the rest is kept"),
        pytest.param("/dance now", None, "now", id="unknown"),
    ],
)
def test_a_line_with_a_slash_is_a_command(line: str, verb: Verb | None, rest: str) -> None:
    (typed,) = feed(line)
    assert isinstance(typed, Command)
    assert (typed.verb, typed.rest) == (verb, rest)


def test_a_message_that_was_begun_can_be_dropped() -> None:
    lines = Lines()
    assert lines.feed('"""begun') is None
    was_open = lines.is_open
    lines.drop()
    assert (was_open, lines.is_open) == (True, False)
    assert lines.feed("fresh") == Message("fresh")

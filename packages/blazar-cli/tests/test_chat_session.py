import io
from collections.abc import Generator

import pytest

from blazar_cli.chat.answer import Event, Finished, Note, Text, Thinking
from blazar_cli.chat.screen import Screen, describe_speed
from blazar_cli.chat.session import ChatSession
from blazar_cli.chat.settings import ChatSettings
from blazar_cli.errors import AnswerBroken

Answer = list[Event | BaseException]


class Terminal:
    """A person who types a script; a line that is an exception is a key press."""

    def __init__(self, *lines: str | type[BaseException]) -> None:
        self.lines = list(lines)

    def __call__(self, prompt: str) -> str:
        if not self.lines:
            raise EOFError
        line = self.lines.pop(0)
        if isinstance(line, str):
            return line
        raise line


class ScriptedModel:
    """Answers from a script and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[list[dict[str, str]]] = []
        self.settings: list[ChatSettings] = []
        self.closed = 0

    def __call__(self, turns: list[dict[str, str]], settings: ChatSettings) -> Generator[Event]:
        self.asked.append([dict(turn) for turn in turns])
        self.settings.append(settings)
        return self._events(self.answers.pop(0))

    def _events(self, answer: Answer) -> Generator[Event]:
        try:
            for event in answer:
                if isinstance(event, BaseException):
                    raise event
                yield event
        finally:
            self.closed += 1


def chat(model: ScriptedModel, terminal: Terminal, *, settings: ChatSettings | None = None) -> tuple[ChatSession, str]:
    out = io.StringIO()
    screen = Screen(out, is_terminal=False)
    session = ChatSession("m", ask=model, read_line=terminal, screen=screen, settings=settings)
    session.run()
    return session, out.getvalue()


def said(text: str) -> Answer:
    return [Text(text), Finished("stop")]


def test_the_conversation_is_remembered_from_turn_to_turn() -> None:
    model = ScriptedModel(said("One."), said("Two."))
    _, out = chat(model, Terminal("first", "second"))
    assert out == "One.\nTwo.\n"
    assert model.asked[1] == [
        {"role": "user", "content": "first"},
        {"role": "assistant", "content": "One."},
        {"role": "user", "content": "second"},
    ]


def test_ctrl_c_stops_the_answer_and_not_the_session() -> None:
    model = ScriptedModel([Text("Half"), KeyboardInterrupt()], said("Whole."))
    session, out = chat(model, Terminal("go on", "again"))
    assert out == "Half\nWhole.\n"
    assert model.closed == 2
    assert [turn["content"] for turn in session.turns] == ["go on", "Half", "again", "Whole."]


def test_ctrl_c_before_the_first_word_takes_the_question_back() -> None:
    model = ScriptedModel([KeyboardInterrupt()], said("Yes."))
    chat(model, Terminal("never mind", "ask"))
    assert model.asked[1] == [{"role": "user", "content": "ask"}]


def test_an_error_is_shown_and_the_session_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel([AnswerBroken(url="http://x", reason="cut")], said("Yes."))
    _, out = chat(model, Terminal("one", "two"))
    assert "broke in the middle" in capsys.readouterr().err
    assert out.endswith("Yes.\n")


def test_ctrl_c_at_the_prompt_says_how_to_leave_and_drops_what_was_begun(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel(said("Yes."))
    chat(model, Terminal('"""begun', KeyboardInterrupt, "fresh"))
    assert "/bye" in capsys.readouterr().out
    assert model.asked == [[{"role": "user", "content": "fresh"}]]


@pytest.mark.parametrize("leave", ["/bye", "/exit", EOFError])
def test_there_are_three_ways_to_leave(leave: str | type[BaseException]) -> None:
    model = ScriptedModel()
    chat(model, Terminal(leave, "never asked"))
    assert model.asked == []


def test_clear_forgets_and_set_changes_the_next_question(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel(said("One."), said("Two."))
    session, _ = chat(model, Terminal("first", "/clear", "/set max-tokens 5", "/set mood good", "second", "/show"))
    assert model.asked[1] == [{"role": "user", "content": "second"}]
    assert model.settings[1].max_tokens == 5
    out = capsys.readouterr().out
    assert "there is no setting 'mood'" in out
    assert "max_tokens  5" in out
    assert "turns  2" in out
    assert session.settings.max_tokens == 5


@pytest.mark.parametrize(("line", "words"), [("/help", "/clear"), ("/set", "temperature"), ("/dance", "/help")])
def test_what_can_be_typed_is_told(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    chat(ScriptedModel(), Terminal(line))
    assert words in capsys.readouterr().out


def render(events: Answer, *, is_terminal: bool, show_thinking: bool = True) -> str:
    out = io.StringIO()
    screen = Screen(out, is_terminal=is_terminal, show_thinking=show_thinking)
    screen.show("m", (event for event in events if not isinstance(event, BaseException)))
    return out.getvalue()


THOUGHTFUL: Answer = [Thinking("Hm"), Thinking("."), Text("Yes"), Finished("stop")]


@pytest.mark.parametrize(
    ("is_terminal", "show_thinking", "wanted"),
    [
        pytest.param(True, True, "\x1b[2mHm.\x1b[0m\n\nYes\n", id="dimmed on a terminal"),
        pytest.param(True, False, "Yes\n", id="left out when not wanted"),
        pytest.param(False, True, "Yes\n", id="left out of a pipe"),
    ],
)
def test_thinking_is_shown_to_people_only(
    is_terminal: bool, show_thinking: bool, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert render(THOUGHTFUL, is_terminal=is_terminal, show_thinking=show_thinking) == wanted


def test_the_terminal_is_not_left_dimmed_when_thinking_is_all_there_is() -> None:
    assert render([Thinking("Hm"), Finished("length")], is_terminal=True).endswith("\x1b[0m\n")


def test_a_line_is_not_ended_twice() -> None:
    assert render([Text("Yes\n"), Finished()], is_terminal=False) == "Yes\n"


def test_notes_of_the_server_never_reach_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    assert render([Note("loading"), Text("Yes"), Finished()], is_terminal=False) == "Yes\n"
    assert capsys.readouterr().err == ""


def test_speed_is_told_as_far_as_it_is_known() -> None:
    screen = Screen(io.StringIO(), is_terminal=False)
    timings: dict[str, object] = {"predicted_per_second": 12.34}
    shown = screen.show("m", [Text("x"), Finished("stop", {"prompt_tokens": 5, "completion_tokens": 2}, timings)])
    line = describe_speed(shown)
    assert "prompt 5 tokens" in line
    assert "answer 2 tokens (12.3/s)" in line

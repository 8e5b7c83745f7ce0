"""`blazar run` at a terminal: thinking is dimmed, and without a prompt it is a conversation."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from blazar_stubs import StubModel
from e2e.home import blazar_command
from e2e.served import Served
from e2e.terminal import Terminal, terminal
from e2e.waiting import eventually

DIM = b"\x1b[2m"


@pytest.fixture(scope="module")
def model(shared: Served) -> StubModel:
    return shared.add_model("m", thinking=True)


@contextmanager
def at_a_terminal(shared: Served, *arguments: str) -> Iterator[Terminal]:
    env = {**shared.home.env(TERM="xterm-256color")}
    del env["NO_COLOR"]
    with terminal(blazar_command(*arguments), cwd=shared.home.root, env=env) as opened:
        yield opened


def scripted(**script: Any) -> str:
    return f"[[stub: {json.dumps(script)}]]"


@pytest.mark.promise("command:run")
def test_thinking_is_shown_dimmed_and_the_answer_is_not(shared: Served, model: StubModel) -> None:
    prompt = scripted(reasoning="hm, let me see", text="forty-two")
    with at_a_terminal(shared, "run", "m", prompt) as shown:
        assert shown.read_to_the_end() == 0
        assert "let me see" in shown.text
        assert "forty-two" in shown.text
    before_the_answer, _, _ = shown.raw.partition(b"forty")
    assert DIM in before_the_answer
    # Between the dimmed part and the answer the style is reset.
    assert b"\x1b[0m" in before_the_answer[before_the_answer.rindex(b"see") :]


@pytest.mark.promise("command:chat")
def test_without_a_prompt_it_is_a_conversation_that_remembers(shared: Served, model: StubModel) -> None:
    with at_a_terminal(shared, "run", "m") as chat:
        chat.read_until("/bye")
        chat.type("my name is Ada\r")
        chat.read_until("You said: my name is Ada")
        chat.type("what is my name?\r")
        chat.read_until("You said: what is my name?")
        chat.type("/bye\r")
        assert chat.read_to_the_end() == 0
    messages = json.loads(model.requests("/v1/chat/completions")[-1]["body"])["messages"]
    assert [(message["role"], message["content"]) for message in messages] == [
        ("user", "my name is Ada"),
        ("assistant", "You said: my name is Ada"),
        ("user", "what is my name?"),
    ]


@pytest.mark.promise("command:chat")
def test_ctrl_c_stops_an_answer_and_not_the_conversation(shared: Served, model: StubModel) -> None:
    with at_a_terminal(shared, "run", "m") as chat:
        chat.read_until("/bye")
        before = len(model.requests("/v1/chat/completions"))
        chat.type(scripted(n_tokens=5000, token_delay_s=0.05) + "\r")
        # What is typed is on the screen too: only the engine tells that it has begun to answer.
        eventually(lambda: model.requests("/v1/chat/completions")[before:], what="the engine is at work")
        chat.type("\x03")
        model.wait_for(lambda events: any(event["event"] == "client_closed" for event in events))
        # Its own script: what was shown of the first answer stays in the conversation, and with it the first script.
        # JSON writes the letter as an escape, so that it is on the screen in the answer alone.
        chat.type(scripted(text="stïll here") + "\r")
        chat.read_until("stïll here")
        chat.type("/bye\r")
        assert chat.read_to_the_end() == 0


@pytest.mark.promise("command:logs")
def test_logs_can_be_followed(shared: Served, model: StubModel) -> None:
    with at_a_terminal(shared, "logs", "-f") as following:
        following.read_until("listening on")
        shared.client.chat("nobody")
        following.read_until("model_not_found")
        following.type("\x03")
        assert following.read_to_the_end() in {0, 130}

"""From headers and sizes to a place in the queue."""

from collections.abc import Mapping

import pytest

from blazar_gateway.tickets import DEFAULT_ANSWER_TOKENS, PREFILL_HEAVY_BYTES, make_call_ticket, make_ticket
from blazar_routing.errors import InvalidRequest
from blazar_routing.ticket import Priority, Ticket


def ticket(
    headers: Mapping[str, str] | None = None,
    *,
    body_bytes: int = 400,
    choices: int = 1,
    max_tokens: int | None = None,
    session: str | None = None,
) -> Ticket:
    return make_ticket(
        model="m",
        headers=headers or {},
        body_bytes=body_bytes,
        choices=choices,
        max_tokens=max_tokens,
        session=session,
    )


def test_plain_request_is_normal_without_deadline() -> None:
    assert ticket() == Ticket(model="m", cells=100 + DEFAULT_ANSWER_TOKENS)


@pytest.mark.parametrize(
    ("word", "priority"),
    [("high", Priority.HIGH), ("NORMAL", Priority.NORMAL), (" low ", Priority.LOW)],
)
def test_priority_header_chooses_the_class(word: str, priority: Priority) -> None:
    assert ticket({"x-blazar-priority": word}).priority is priority


def test_prefill_heavy_body_goes_one_class_down() -> None:
    assert ticket(body_bytes=PREFILL_HEAVY_BYTES).priority is Priority.NORMAL
    assert ticket(body_bytes=PREFILL_HEAVY_BYTES + 1).priority is Priority.LOW


def test_deadline_header_is_milliseconds() -> None:
    assert ticket({"x-blazar-deadline-ms": "1500"}).deadline_s == 1.5


@pytest.mark.parametrize("text", ["", "0", "-5", "1.5", "soon", "٣", "9" * 13])
def test_odd_deadline_is_refused_by_name(text: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        ticket({"x-blazar-deadline-ms": text})
    assert caught.value.param == "x-blazar-deadline-ms"


def test_odd_priority_is_refused_with_the_words_it_takes() -> None:
    with pytest.raises(InvalidRequest, match="high, normal or low"):
        ticket({"x-blazar-priority": "urgent"})


def test_choices_take_slots_and_cells() -> None:
    wanted = ticket(choices=3, max_tokens=50)
    assert (wanted.slots, wanted.cells) == (3, 450)


def test_no_limit_counts_as_the_default_answer() -> None:
    assert ticket(max_tokens=-1) == ticket()


@pytest.mark.parametrize(
    ("headers", "session"),
    [
        pytest.param({"x-blazar-session": "a", "x-claude-code-session-id": "b"}, "a", id="ours first"),
        pytest.param({"x-claude-code-session-id": "b"}, "b", id="then the agent's"),
        pytest.param({}, "c", id="then the body's"),
    ],
)
def test_session_comes_from_the_most_explicit_source(headers: Mapping[str, str], session: str) -> None:
    assert ticket(headers, session="c").session == session


def test_call_needs_no_slot() -> None:
    assert make_call_ticket(model="m", headers={}) == Ticket(model="m", slots=0)

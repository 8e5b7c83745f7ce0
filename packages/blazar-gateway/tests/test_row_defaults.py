"""What a row adds to a request, and that it is the weakest voice."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.row_defaults import RowDefaults, defaults_of, fill_chat, fill_parameters, row_defaults
from blazar_gateway.testing import card
from blazar_routing.errors import InvalidRequest
from blazar_store.types import RowOverlay

SYSTEM = {"role": "system", "content": "Rhyme."}
USER = {"role": "user", "content": "Hi"}
SHOT = ({"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"})


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        pytest.param({}, {"temperature": 0.5, "max_tokens": 7}, id="nothing said"),
        pytest.param({"temperature": 1}, {"temperature": 1, "max_tokens": 7}, id="the client wins"),
        pytest.param({"temperature": 0}, {"temperature": 0, "max_tokens": 7}, id="nought is said"),
        pytest.param({"temperature": None}, {"temperature": 0.5, "max_tokens": 7}, id="null is not"),
        pytest.param({"max_completion_tokens": 3}, {"max_completion_tokens": 3, "temperature": 0.5}, id="another name"),
        pytest.param({"n_predict": 3}, {"n_predict": 3, "temperature": 0.5}, id="the engine's name"),
    ],
)
def test_parameters_fill_what_nobody_said(sent: dict[str, Any], expected: Mapping[str, Any]) -> None:
    fill_parameters(sent, row_defaults({"temperature": 0.5, "num_predict": 7, "num_ctx": 2048}))
    assert sent == expected


@pytest.mark.parametrize(
    ("defaults", "sent", "expected"),
    [
        pytest.param(RowDefaults(system="Rhyme."), [USER], [SYSTEM, USER], id="a prompt where there is none"),
        pytest.param(
            RowDefaults(system="Rhyme."),
            [{"role": "developer", "content": "No."}, USER],
            [{"role": "developer", "content": "No."}, USER],
            id="the client's prompt wins",
        ),
        pytest.param(
            RowDefaults(system="Rhyme."),
            [{"role": "system", "content": ""}, USER],
            [{"role": "system", "content": ""}, USER],
            id="an empty one too",
        ),
        pytest.param(
            RowDefaults(system="Rhyme."),
            [USER, {"role": "system", "content": "Late."}],
            [USER, {"role": "system", "content": "Late."}],
            id="a late one too",
        ),
        pytest.param(RowDefaults(messages=SHOT), [USER], [*SHOT, USER], id="turns first"),
        pytest.param(
            RowDefaults(system="Rhyme.", messages=SHOT), [USER], [SYSTEM, *SHOT, USER], id="turns behind the prompt"
        ),
        pytest.param(
            RowDefaults(system="Rhyme.", messages=SHOT),
            [{"role": "system", "content": "Mine."}, USER],
            [{"role": "system", "content": "Mine."}, *SHOT, USER],
            id="turns behind the client's prompt",
        ),
    ],
)
def test_a_conversation_begins_as_the_row_says(
    defaults: RowDefaults, sent: list[dict[str, str]], expected: list[dict[str, str]]
) -> None:
    before = list(sent)
    fields: dict[str, Any] = {"messages": sent}
    assert fill_chat(fields, defaults) is (expected != before)
    assert fields["messages"] == expected
    assert sent == before


def test_a_continued_conversation_has_begun_already() -> None:
    fields: dict[str, Any] = {"messages": [USER]}
    defaults = row_defaults({"top_k": 5}, "Rhyme.", SHOT)
    assert fill_chat(fields, defaults, continues=True)
    assert fields == {"messages": [USER], "top_k": 5}


def test_a_wrong_type_is_told_in_words_of_ollama() -> None:
    with pytest.raises(InvalidRequest, match='option "temperature" must be of type float32'):
        row_defaults({"temperature": "hot"})


@given(
    st.dictionaries(st.sampled_from(["temperature", "top_k", "seed", "max_tokens"]), st.integers(0, 9)),
    st.dictionaries(st.sampled_from(["temperature", "top_k", "seed", "num_predict", "num_ctx"]), st.integers(1, 9)),
)
def test_nothing_that_was_said_is_changed_and_twice_is_once(sent: dict[str, Any], parameters: dict[str, Any]) -> None:
    fields = {**sent, "messages": [USER]}
    defaults = row_defaults(parameters, "Rhyme.")
    fill_chat(fields, defaults)
    assert {name: fields[name] for name in sent} == sent
    once = dict(fields)
    assert not fill_chat(fields, defaults)
    assert fields == once


def test_a_row_without_an_overlay_adds_nothing_and_one_that_was_tampered_with_adds_its_words() -> None:
    assert not defaults_of(card())
    assert not defaults_of(card(overlay=RowOverlay(source="base", template="{{ .Prompt }}")))
    tampered = card(overlay=RowOverlay(system="Rhyme.", parameters={"temperature": "hot"}))
    assert defaults_of(tampered) == RowDefaults(system="Rhyme.")
    changed = card(overlay=RowOverlay(system="Sing."))
    assert defaults_of(changed) == RowDefaults(system="Sing.")

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_store.errors import NameReserved
from blazar_store.names import check_model_name, fold_name, near_names, resolve_model_name


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("smollm2", id="plain"),
        pytest.param("org/model", id="slash"),
        pytest.param("org/model:Q4_K_M", id="colon"),
        pytest.param("MiXeD Case", id="case and inner space"),
        pytest.param("50%", id="percent"),
        pytest.param("org%2Fmodel", id="looks encoded"),
        pytest.param("модель-模型-é", id="any script"),
        pytest.param("a..b", id="dots inside a part"),
        pytest.param(".hidden", id="leading dot"),
        pytest.param("user@host", id="an at sign of its own"),
        pytest.param("x" * 300, id="300 characters"),
    ],
)
def test_name_may_be_given(name: str) -> None:
    check_model_name(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("", "empty", id="empty"),
        pytest.param("x" * 513, "513 characters", id="too long"),
        pytest.param("model#2", "'#' is reserved", id="replica"),
        pytest.param("#2", "'#' is reserved", id="only a replica number"),
        pytest.param("model@vision", "'@vision' is reserved", id="vision mark"),
        pytest.param("model@VISION", "'@vision' is reserved", id="vision mark in capitals"),
        pytest.param("@vision", "'@vision' is reserved", id="only the mark"),
        pytest.param("model@embed", "'@embed' is reserved", id="embed mark"),
        pytest.param("model ", "space", id="trailing space"),
        pytest.param(" model", "space", id="leading space"),
        pytest.param("a\x00b", "control", id="nul"),
        pytest.param("a\nb", "control", id="line break"),
        pytest.param("a\u202eb", "control", id="text direction override"),
        pytest.param("a\u200bb", "control", id="zero-width space"),
        pytest.param("a\ud800b", "control", id="lone surrogate"),
        pytest.param("..", "slashes", id="parent"),
        pytest.param("a/../b", "slashes", id="parent inside"),
        pytest.param("/../", "slashes", id="parent between slashes"),
        pytest.param("/etc/passwd", "slashes", id="absolute"),
        pytest.param("a//b", "slashes", id="double slash"),
        pytest.param("a/", "slashes", id="trailing slash"),
        pytest.param("..\\x", "backslash", id="backslash"),
        pytest.param("a,b", "',' for the end of a name: use '-' instead", id="comma"),
    ],
)
def test_name_is_refused_and_the_error_says_why(name: str, reason: str) -> None:
    with pytest.raises(NameReserved, match=reason) as caught:
        check_model_name(name)
    assert str(caught.value).isprintable()


ROWS = ("smollm2", "org/model-Q4_K_M", "gemma3-270m", "Qwen3", "tagged:7b", "old:latest", "50%", "Ünïcode")


@pytest.mark.parametrize(
    ("asked", "row"),
    [
        pytest.param("smollm2", "smollm2", id="as it is"),
        pytest.param("smollm2:latest", "smollm2", id="latest means no tag"),
        pytest.param("smollm2:LATEST", "smollm2", id="latest in capitals"),
        pytest.param("old", "old:latest", id="no tag means latest"),
        pytest.param("tagged:7b", "tagged:7b", id="a row with a colon"),
        pytest.param("gemma3:270m", "gemma3-270m", id="colon to dash"),
        pytest.param("GEMMA3:270M", "gemma3-270m", id="colon to dash in another case"),
        pytest.param("org/model:Q4_K_M", "org/model-Q4_K_M", id="colon to dash after a slash"),
        pytest.param("hf.co/org/model:q4_k_m", "org/model-Q4_K_M", id="hub prefix and another case"),
        pytest.param("huggingface.co/org/model-Q4_K_M", "org/model-Q4_K_M", id="long hub prefix"),
        pytest.param("https://hf.co/org/model:Q4_K_M", "org/model-Q4_K_M", id="hub address"),
        pytest.param("org%2Fmodel%3AQ4_K_M", "org/model-Q4_K_M", id="encoded twice by the client"),
        pytest.param("qwen3", "Qwen3", id="another case"),
        pytest.param("ÜNÏCODE", "Ünïcode", id="another case beyond ASCII"),
        pytest.param("U\u0308ni\u0308code", "Ünïcode", id="decomposed letters"),
        pytest.param("50%", "50%", id="percent is a character"),
    ],
)
def test_spelling_means_an_existing_row(asked: str, row: str) -> None:
    assert resolve_model_name(asked, ROWS) == row


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param("unknown", id="unknown"),
        pytest.param("unknown:tag", id="unknown with a tag"),
        pytest.param("gemma3:1b", id="known stem, unknown tag"),
        pytest.param("model:Q4_K_M", id="a part of a row"),
        pytest.param("smollm2 ", id="trailing space"),
        pytest.param("smollm2#2", id="replica key"),
        pytest.param("smollm2@vision", id="companion key"),
        pytest.param("../smollm2", id="traversal"),
        pytest.param("org//model-Q4_K_M", id="double slash"),
        pytest.param("%ff", id="not UTF-8 when decoded"),
        pytest.param("", id="empty"),
        pytest.param("x" * 300, id="300 characters"),
        pytest.param("hf.co/", id="prefix alone"),
        pytest.param(":latest", id="tag alone"),
    ],
)
def test_miss_is_returned_verbatim(asked: str) -> None:
    assert resolve_model_name(asked, ROWS) == asked


def test_exact_row_wins_over_every_other_reading() -> None:
    rows = ("a:b", "a-b", "A:B", "a%3Ab")
    assert [resolve_model_name(row, rows) for row in rows] == list(rows)


def test_case_decides_nothing_when_two_rows_would_fit() -> None:
    assert resolve_model_name("ABC", ("abc", "Abc")) == "ABC"


@given(st.text(max_size=40), st.lists(st.text(min_size=1, max_size=20), max_size=8))
def test_answer_is_a_row_or_the_question(name: str, rows: list[str]) -> None:
    assert resolve_model_name(name, rows) in {name, *rows}


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=8))
def test_every_row_is_found_by_its_own_name_and_by_its_path_form(rows: list[str]) -> None:
    for row in rows:
        assert resolve_model_name(row, rows) == row


@pytest.mark.parametrize("row", ROWS)
def test_encoded_path_form_reaches_the_same_row(row: str) -> None:
    assert resolve_model_name(quote(row, safe=""), ROWS) == row


@given(st.text(max_size=30))
def test_folding_twice_changes_nothing(name: str) -> None:
    assert fold_name(fold_name(name)) == fold_name(name)


@pytest.mark.parametrize(
    ("asked", "near"),
    [
        pytest.param("smolm2", ("smollm2",), id="a letter missing"),
        pytest.param("SMOLLM", ("smollm2",), id="case"),
        pytest.param("model", ("org/model-Q4_K_M",), id="a part"),
        pytest.param("zzz", (), id="nothing alike"),
    ],
)
def test_similar_names_are_suggested(asked: str, near: tuple[str, ...]) -> None:
    assert near_names(asked, ROWS) == near


def test_suggestions_are_few() -> None:
    assert len(near_names("model", [f"model-{number}" for number in range(9)])) == 3

"""Stop strings are found wherever the pieces are cut, and nothing else is lost."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from blazar_gateway.dialects.stop_words import StopWords

TEXT = st.text(alphabet="ab#é", max_size=30)


def pieces(text: str, cuts: list[int]) -> list[str]:
    edges = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[start:stop] for start, stop in itertools.pairwise(edges)]


def first_stop(text: str, words: list[str]) -> tuple[int, str] | None:
    places = [(text.find(word), -len(word), word) for word in words if word in text]
    if not places:
        return None
    at, _, word = min(places)
    return at, word


@given(TEXT, st.lists(st.text(alphabet="ab#", min_size=1, max_size=4), max_size=3), st.lists(st.integers(0, 40)))
def test_the_text_before_the_first_stop_is_shown_whatever_the_cuts(
    text: str, words: list[str], cuts: list[int]
) -> None:
    matcher = StopWords(words)
    shown = ""
    for piece in pieces(text, cuts):
        shown += matcher.feed(piece)
        assert text.startswith(shown)
        if matcher.met:
            break
    else:
        shown += matcher.end()
    if matcher.met is None:
        assert first_stop(text, words) is None
        assert shown == text
    else:
        assert text.startswith(shown + matcher.met)
        assert matcher.met in words


@given(TEXT, st.lists(st.text(alphabet="ab#", min_size=1, max_size=4), min_size=1, max_size=3))
def test_in_one_piece_the_earliest_and_then_the_longest_word_is_met(text: str, words: list[str]) -> None:
    matcher = StopWords(words)
    shown = matcher.feed(text)
    expected = first_stop(text, words)
    assert matcher.met == (expected[1] if expected else None)
    if expected:
        assert shown == text[: expected[0]]


def test_without_words_everything_passes_at_once() -> None:
    matcher = StopWords(())
    assert matcher.feed("any") == "any"
    assert matcher.end() == ""


def test_a_beginning_that_comes_to_nothing_is_shown_at_the_end() -> None:
    matcher = StopWords(["STOP"])
    assert matcher.feed("a ST") == "a "
    assert matcher.end() == "ST"


def test_what_follows_a_met_word_is_swallowed() -> None:
    matcher = StopWords(["#"])
    assert matcher.feed("a#b") == "a"
    assert matcher.feed("c") == ""
    assert matcher.met == "#"

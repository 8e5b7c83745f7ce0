"""Which bytes are there, and which are asked for next."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_supervisor.pulls.parts import Ranges, parse_content_range, plan_requests

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=12)


@given(SPANS, st.integers(0, 70))
def test_ranges_are_a_set_of_bytes(spans: list[tuple[int, int]], size: int) -> None:
    ranges = Ranges(spans)
    there = {byte for start, stop in spans for byte in range(start, stop)}
    assert {byte for start, stop in ranges for byte in range(start, stop)} == there
    assert ranges.total == len(there)
    missing = {byte for start, stop in ranges.missing(size) for byte in range(start, stop)}
    assert missing == set(range(size)) - there
    edges = [edge for span in ranges for edge in span]
    assert edges == sorted(set(edges)), "joined where they touch"


@given(SPANS, st.integers(1, 70), st.integers(1, 20))
def test_requests_cover_the_gaps_exactly_once(spans: list[tuple[int, int]], size: int, chunk: int) -> None:
    missing = Ranges(spans).missing(size)
    requests = plan_requests(missing, chunk=chunk)
    asked = [byte for start, stop in requests for byte in range(start, stop)]
    assert asked == [byte for start, stop in missing for byte in range(start, stop)]
    assert all(stop - start <= chunk for start, stop in requests)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bytes 0-99/200", (0, 100, 200)),
        ("Bytes 5-5/*", (5, 6, None)),
        ("bytes */200", None),
        ("bytes 0-/200", None),
        ("items 0-1/2", None),
        ("", None),
        (None, None),
    ],
)
def test_content_range(value: str | None, expected: tuple[int, int, int | None] | None) -> None:
    assert parse_content_range(value) == expected

"""Bars that show what fills a device."""

import pytest

from blazar_cli.memory_picture import Segment, bar

WEIGHTS, CACHE = Segment("weights", "#", 50), Segment("kv cache", "=", 30)


@pytest.mark.parametrize(
    ("parts", "capacity", "expected"),
    [
        pytest.param([WEIGHTS, CACHE], 100, "[#####===..]", id="room-to-spare"),
        pytest.param([WEIGHTS, CACHE], 80, "[######====]", id="just-full"),
        pytest.param([WEIGHTS, CACHE], 40, "[#####|#====", id="over"),
        pytest.param([WEIGHTS], 0, "[|##########", id="nothing-there"),
        pytest.param([Segment("weights", "#", 1)], 10_000, "[#.........]", id="a-small-part-still-shows"),
        pytest.param([], 10, "[..........]", id="empty"),
    ],
)
def test_bars(parts: list[Segment], capacity: int, expected: str) -> None:
    assert bar(parts, capacity, width=10) == expected

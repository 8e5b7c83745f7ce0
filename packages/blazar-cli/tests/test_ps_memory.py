"""``blazar ps --memory``: the estimate beside the engine's report."""

import pytest

from blazar_cli.commands.ps import _memory_row


@pytest.mark.parametrize(
    ("child", "expected"),
    [
        pytest.param(
            {"child": "m", "state": "ready", "size": 100 << 20, "size_estimated": 101 << 20, "size_vram": 0},
            ("m", "ready", "101.0 MiB", "100.0 MiB", "+1.0%", "0.0 MiB"),
            id="loaded",
        ),
        pytest.param(
            {"child": "m", "state": "sleeping", "size": 100 << 20, "size_estimated": 101 << 20, "size_vram": 0},
            ("m", "sleeping", "101.0 MiB", "100.0 MiB", "-", "0.0 MiB"),
            id="asleep-there-is-nothing-to-compare",
        ),
        pytest.param(
            {"child": "m", "state": "starting"}, ("m", "starting", "-", "-", "-", "0.0 MiB"), id="nothing-known"
        ),
    ],
)
def test_rows(child: dict[str, object], expected: tuple[str, ...]) -> None:
    assert _memory_row(child) == expected

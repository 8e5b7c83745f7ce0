import pytest

from blazar_routing.durations import read_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("300", 300.0),
        ("-1", -1.0),
        (".5", 0.5),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("-1m", -60.0),
        ("+1.5s", 1.5),
        ("1500ms", 1.5),
        ("2µs", 2e-6),
        ("2μs", 2e-6),
        ("0s", 0.0),
        ("", None),
        ("soon", None),
        ("5 m", None),
        ("m", None),
        ("1e3", None),
        ("5m3", None),
        ("٣", None),
    ],
)
def test_durations_are_read_as_go_reads_them_and_numbers_as_seconds(text: str, seconds: float | None) -> None:
    assert read_seconds(text) == seconds

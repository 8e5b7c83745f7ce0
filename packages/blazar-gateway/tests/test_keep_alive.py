"""Every spelling of keep_alive that clients were seen to send."""

import pytest

from blazar_gateway.keep_alive import KeepAlive, parse_keep_alive
from blazar_routing.durations import FOREVER_S
from blazar_routing.errors import InvalidRequest

FOREVER = None


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        pytest.param(0, 0.0, id="zero unloads"),
        pytest.param("0", 0.0, id="zero as text"),
        pytest.param("0s", 0.0, id="zero seconds"),
        pytest.param("-0", 0.0, id="minus zero is zero"),
        pytest.param(300, 300.0, id="seconds"),
        pytest.param(2.5, 2.5, id="fractional seconds"),
        pytest.param("300", 300.0, id="seconds as text"),
        pytest.param(" 5m ", 300.0, id="spaces around"),
        pytest.param("5m", 300.0, id="minutes"),
        pytest.param("+5m", 300.0, id="plus sign"),
        pytest.param("1h30m", 5400.0, id="hours and minutes"),
        pytest.param("24h", 86400.0, id="a day"),
        pytest.param("90s", 90.0, id="seconds with unit"),
        pytest.param("1500ms", 1.5, id="milliseconds"),
        pytest.param("1.5h", 5400.0, id="fraction of an hour"),
        pytest.param(".5h", 1800.0, id="fraction without a leading digit"),
        pytest.param("1h2m3s4ms", 3723.004, id="four units"),
        pytest.param("100us", 0.0001, id="microseconds"),
        pytest.param("100µs", 0.0001, id="microseconds with a micro sign"),
        pytest.param("5ns", 5e-9, id="nanoseconds"),
        pytest.param(-1, FOREVER, id="minus one is for ever"),
        pytest.param(-1.0, FOREVER, id="minus one as a float"),
        pytest.param("-1", FOREVER, id="minus one as text"),
        pytest.param("-1m", FOREVER, id="minus one minute"),
        pytest.param("-2m", FOREVER, id="any negative duration"),
        pytest.param(1e12, FOREVER, id="huge number does not overflow"),
        pytest.param(10**400 // 10**80, FOREVER, id="integer beyond any date"),
        pytest.param("1" + "0" * 300 + "h", FOREVER, id="huge duration"),
        pytest.param(FOREVER_S, FOREVER_S, id="a century is still a number"),
    ],
)
def test_spelling_means_seconds(given: object, seconds: float | None) -> None:
    parsed = parse_keep_alive(given)
    assert parsed is not None
    if seconds is None:
        assert parsed == KeepAlive(None)
    else:
        assert parsed.seconds == pytest.approx(seconds)


@pytest.mark.parametrize("given", [pytest.param(None, id="absent or null"), pytest.param("", id="empty"), "  "])
def test_nothing_asked_leaves_the_setting_alone(given: object) -> None:
    assert parse_keep_alive(given) is None


@pytest.mark.parametrize(
    "given",
    ["5x", "forever", "soon", "5 m", "m5", "1h30", "1d", "--1", "1e3x", "nan", "inf", "٣", True, False, [], {}, ["5m"]],
)
def test_nonsense_is_refused_and_shown_what_is_accepted(given: object) -> None:
    with pytest.raises(InvalidRequest, match="1h30m") as caught:
        parse_keep_alive(given)
    assert caught.value.param == "keep_alive"


def test_long_nonsense_is_not_echoed_in_full() -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse_keep_alive("x" * 10_000)
    assert len(str(caught.value)) < 400

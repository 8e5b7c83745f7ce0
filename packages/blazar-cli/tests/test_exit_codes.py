from collections.abc import Iterator

import pytest

from blazar_cli.errors import ApiRefused
from blazar_cli.exit_codes import LANE_EXIT, STORE_EXIT, ExitCode, exit_for
from blazar_routing.errors import LaneError
from blazar_store.errors import StoreError


def codes_below(root: type[LaneError] | type[StoreError]) -> Iterator[str]:
    yield root.code
    for child in root.__subclasses__():
        yield from codes_below(child)


def test_every_refusal_of_the_api_has_an_exit_status() -> None:
    assert set(codes_below(LaneError)) == set(LANE_EXIT)


def test_every_refusal_of_the_store_has_an_exit_status() -> None:
    assert set(codes_below(StoreError)) == set(STORE_EXIT)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        pytest.param(ExitCode.BIND_CONFLICT, 3, id="the service unit must not restart on it"),
        pytest.param(ExitCode.DATA_DIR_IN_USE, 4, id="another daemon has the directory"),
        pytest.param(ExitCode.USAGE, 2, id="what click uses"),
        pytest.param(ExitCode.INTERRUPTED, 130, id="what shells say of Ctrl-C"),
    ],
)
def test_statuses_that_others_rely_on_never_change(code: ExitCode, status: int) -> None:
    assert code == status


def test_no_two_situations_share_a_number() -> None:
    assert len({int(code) for code in ExitCode}) == len(list(ExitCode))
    assert all(code.meaning.endswith(".") or "`" in code.meaning for code in ExitCode)


def test_a_code_that_only_a_newer_daemon_knows_is_a_plain_failure() -> None:
    assert exit_for("invented-tomorrow") is ExitCode.FAILED


@pytest.mark.parametrize(
    ("code", "http_status", "wanted"),
    [
        pytest.param("model-not-found", 404, ExitCode.NOT_FOUND, id="by its code"),
        pytest.param("", 401, ExitCode.REFUSED, id="no key"),
        pytest.param("", 500, ExitCode.FAILED, id="anything else"),
    ],
)
def test_an_answer_of_the_daemon_ends_as_the_same_refusal_would_here(
    code: str, http_status: int, wanted: ExitCode
) -> None:
    assert ApiRefused("text", code=code, http_status=http_status).exit_code is wanted

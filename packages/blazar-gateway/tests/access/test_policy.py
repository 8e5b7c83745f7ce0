"""Every route has its rule."""

import pytest

from blazar_gateway.access.policy import FREE, KEYS, MANAGING, METERED, READS, plain_path
from blazar_gateway.app import ROUTES

BY_NAME = ["/v1/models/m", "/models/org/m", "/v1/responses/resp_1/cancel", "/api/blobs/sha256:1", "/api/keys/a/rotate"]


@pytest.mark.parametrize("path", [*ROUTES, *BY_NAME])
def test_every_route_is_in_exactly_one_class(path: str) -> None:
    classes = (path in FREE, path in METERED, bool(READS.fullmatch(path)), bool(MANAGING.fullmatch(path)))
    assert sum(classes) == 1, path


def test_keys_are_managed() -> None:
    assert KEYS.fullmatch("/api/keys")
    assert KEYS.fullmatch("/api/keys/alice/rotate")
    assert not KEYS.fullmatch("/api/keysmith")


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/", "/"),
        ("//", "/"),
        ("/health/", "/health"),
        ("//health", "/health"),
        ("/v1//models///", "/v1/models"),
        ("/v1/models", "/v1/models"),
        ("/healthz/x", "/healthz/x"),
    ],
)
def test_a_path_has_one_spelling(path: str, plain: str) -> None:
    assert plain_path(path) == plain

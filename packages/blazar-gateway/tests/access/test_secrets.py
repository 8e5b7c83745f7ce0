"""Where a request carries its secret."""

import pytest
from multidict import CIMultiDict

from blazar_gateway.access.secrets import carried_secret, same_hash
from blazar_routing.errors import KeyMissing, KeysConflict
from blazar_store.key_secrets import PREFIX, hash_secret, new_secret


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({"Authorization": "Bearer s3"}, id="bearer"),
        pytest.param({"authorization": "bearer s3"}, id="lower-case"),
        pytest.param({"AUTHORIZATION": "BEARER   s3 "}, id="upper-case-and-spaces"),
        pytest.param({"Authorization": "s3"}, id="without-a-scheme"),
        pytest.param({"X-Api-Key": "s3"}, id="x-api-key"),
        pytest.param({"x-api-key": "Bearer s3"}, id="bearer-in-x-api-key"),
        pytest.param({"Authorization": "Bearer s3", "x-api-key": "s3"}, id="the-same-in-both"),
        pytest.param({"Authorization": "", "x-api-key": "s3"}, id="an-empty-one-does-not-count"),
    ],
)
def test_a_secret_is_found(headers: dict[str, str]) -> None:
    assert carried_secret(CIMultiDict(headers)) == "s3"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer "}, {"x-api-key": " "}])
def test_no_secret(headers: dict[str, str]) -> None:
    with pytest.raises(KeyMissing):
        carried_secret(CIMultiDict(headers))


def test_two_different_secrets_are_refused() -> None:
    with pytest.raises(KeysConflict):
        carried_secret(CIMultiDict({"Authorization": "Bearer one", "x-api-key": "two"}))


def test_a_header_sent_twice_with_different_secrets_is_refused() -> None:
    with pytest.raises(KeysConflict):
        carried_secret(CIMultiDict(), every={"Authorization": ["Bearer one", "Bearer two"]})


def test_new_secrets_are_marked_and_differ() -> None:
    one, two = new_secret(), new_secret()
    assert one.startswith(PREFIX)
    assert one != two
    assert len(one) >= 40


def test_only_the_same_secret_has_the_same_hash() -> None:
    assert same_hash(hash_secret("a"), hash_secret("a"))
    assert not same_hash(hash_secret("a"), hash_secret("b"))
    assert hash_secret("\udc80")

"""Which key a secret opens, and what a key may be."""

import pytest

from blazar_gateway.access.keyring import Key, Keyring, check_limits, check_name
from blazar_routing.errors import KeyInvalid, KeyMalformed, ModelNotAllowed
from blazar_store.key_secrets import hash_secret

ALICE = Key("alice", hash_secret("a"), models=("m1", "m2"))
ADMIN = Key("admin", hash_secret("b"), expires_at=100)
RING = Keyring([ALICE, ADMIN])


def test_a_secret_opens_its_key() -> None:
    assert RING.find("a", now=0) is ALICE
    assert RING.find("b", now=99) is ADMIN
    assert RING.named("alice") is ALICE
    assert RING.named("nobody") is None


def test_a_wrong_secret_opens_nothing() -> None:
    with pytest.raises(KeyInvalid, match="not known"):
        RING.find("c", now=0)


def test_an_expired_key_says_so() -> None:
    with pytest.raises(KeyInvalid, match="'admin' has expired"):
        RING.find("b", now=100)


def test_an_empty_ring_is_an_open_gateway() -> None:
    assert not Keyring()
    assert RING


def test_a_scoped_key_has_its_models_and_does_not_manage() -> None:
    ALICE.check_model("m1")
    ALICE.check_model("behind", ("other", "m2"))
    with pytest.raises(ModelNotAllowed, match="'m1' or 'm2'"):
        ALICE.check_model("m3")
    assert not ALICE.is_admin
    ADMIN.check_model("anything")
    assert ADMIN.is_admin


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 128])
def test_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", "a b", "ä", "a/b", "x" * 129, None, 3, "a\n"])
def test_malformed_names(name: object) -> None:
    with pytest.raises(KeyMalformed, match="cannot be a key's name"):
        check_name(name)


def test_limits() -> None:
    assert check_limits({"rpm": 0, "tpm": None, "weight": 1, "other": "x"}) == {"rpm": 0, "weight": 1}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rpm", -1),
        ("tpm", 1.5),
        ("daily_tokens", "9"),
        ("max_concurrent", True),
        ("weight", 0),
        ("weight", 10**6 + 1),
        ("rpm", 2**53),
    ],
)
def test_malformed_limits(name: str, value: object) -> None:
    with pytest.raises(KeyMalformed, match=name):
        check_limits({name: value})

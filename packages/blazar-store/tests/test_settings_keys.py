import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from blazar_store.key_secrets import hash_secret, new_secret
from blazar_store.settings import KeyEntry, parse_settings

SECRET = "plm_a-secret-of-somebody"


def key(fields: str) -> KeyEntry:
    settings = parse_settings(f'[[keys]]\nname = "alice"\n{fields}', path=Path("c"))
    (entry,) = settings.keys
    return entry


def test_a_plain_secret_and_its_hash_open_the_same() -> None:
    plain, hashed = key(f'key = "{SECRET}"'), key(f'hash = "{hash_secret(SECRET)}"')
    assert plain.secret_hash == hashed.secret_hash == hash_secret(SECRET)


def test_a_secret_shows_nowhere() -> None:
    entry = key(f'key = "{SECRET}"')
    assert SECRET not in repr(entry) + str(entry) + json.dumps(entry.model_dump(mode="json"))


def test_new_secrets_are_marked_and_differ() -> None:
    first, second = new_secret(), new_secret()
    assert first != second
    assert first.startswith("plm_")
    assert len(first) >= 40


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        pytest.param("2027-01-31", datetime(2027, 1, 31, tzinfo=UTC), id="a day begins in UTC"),
        pytest.param("2027-01-31T12:00:00", datetime(2027, 1, 31, 12, tzinfo=UTC), id="without an offset"),
        pytest.param("2027-01-31T12:00:00+02:00", datetime(2027, 1, 31, 10, tzinfo=UTC), id="with an offset"),
        pytest.param('"2027-01-31T12:00:00Z"', datetime(2027, 1, 31, 12, tzinfo=UTC), id="a text"),
    ],
)
def test_expiry_is_a_moment(written: str, moment: datetime) -> None:
    assert key(f'key = "{SECRET}"\nexpires = {written}').expires == moment

"""Keys from the command line, with the daemon down."""

import json

import pytest

from blazar_cli.errors import ApiRefused
from blazar_cli.exit_codes import ExitCode
from blazar_cli.testing import User
from blazar_store.key_secrets import hash_secret
from blazar_store.settings import load_settings


def test_a_key_is_made_listed_rotated_and_removed(user: User) -> None:
    made = user.blazar("keys", "add", "alice", "--model", "m", "--rpm", "60", "--expires", "2099-01-31")
    secret = made.out.strip()
    assert secret.startswith("plm_")
    assert "first key" in made.err
    (entry,) = load_settings(user.config_file).keys
    assert (entry.hash, entry.key, entry.models, entry.rpm) == (hash_secret(secret), None, ("m",), 60)
    assert secret not in user.config_file.read_text()
    assert "port = 1" in user.config_file.read_text()

    user.ok("keys", "add", "bob")
    listed = user.ok("keys", "list")
    assert "alice" in listed
    assert "2099-01-31 00:00 UTC" in listed
    assert entry.secret_hash not in listed + user.ok("keys", "list", "--json")

    fresh = user.ok("keys", "rotate", "alice").strip()
    assert load_settings(user.config_file).keys[0].hash == hash_secret(fresh) != entry.hash

    assert "Removed key 'alice'" in user.ok("keys", "rm", "alice")
    assert [entry["name"] for entry in user.json("keys", "list")] == ["bob"]


def test_the_secret_for_programs(user: User) -> None:
    made = user.json("keys", "add", "alice")
    assert made["name"] == "alice"
    assert load_settings(user.config_file).keys[0].hash == hash_secret(made["key"])


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        pytest.param(("add", "bob"), ExitCode.FAILED, "there is a key named 'bob' already", id="a name twice"),
        pytest.param(("add", "b b"), ExitCode.USAGE, "`name` must be 1 to 128", id="a name"),
        pytest.param(("add", "carl", "--rpm", "-1"), ExitCode.USAGE, "rpm", id="a limit"),
        pytest.param(("add", "carl", "--weight", "0"), ExitCode.USAGE, "weight", id="a weight"),
        pytest.param(("add", "carl", "--expires", "soon"), ExitCode.USAGE, "`expires` must be a date", id="an expiry"),
        pytest.param(("rm", "bob"), ExitCode.REFUSED, "would leave the gateway authless", id="the last"),
        pytest.param(("rm", "carl"), ExitCode.NOT_FOUND, "no key named 'carl'", id="removing none"),
        pytest.param(("rotate", "carl"), ExitCode.NOT_FOUND, "no key named 'carl'", id="rotating none"),
    ],
)
def test_refusals_change_nothing(user: User, arguments: tuple[str, ...], status: ExitCode, words: str) -> None:
    user.ok("keys", "add", "bob")
    before = user.config_file.read_text()
    ended = user.blazar("keys", *arguments)
    assert ended.status == status
    assert words in ended.err
    assert user.config_file.read_text() == before


def test_keys_of_the_environment_are_shown_and_left_alone(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLAZAR_KEYS", "ci=secret-of-the-ci")
    user.ok("keys", "add", "alice")
    assert [entry["name"] for entry in user.json("keys", "list")] == ["ci", "alice"]
    for arguments in (("rm", "ci"), ("rotate", "ci")):
        ended = user.blazar("keys", *arguments)
        assert ended.status == ExitCode.USAGE
        assert "comes from BLAZAR_KEYS" in ended.err
    assert user.blazar("keys", "add", "ci").status == ExitCode.FAILED
    # With the environment's key there, the file's own may go.
    user.ok("keys", "rm", "alice")


def test_without_keys_that_is_said(user: User) -> None:
    assert "blazar keys add NAME" in user.blazar("keys", "list").err
    assert "Nothing was used" in user.blazar("keys", "usage").err
    assert user.json("keys", "usage") == []


def test_secrets_are_not_shown_with_the_configuration(user: User) -> None:
    user.config_file.write_text('[[keys]]\nname = "alice"\nkey = "a-secret-by-hand"\n')
    assert "a-secret-by-hand" not in user.ok("config", "show") + user.ok("config", "show", "--json")


def test_legacy_keys_are_migrated_once(user: User) -> None:
    user.config_file.write_text('# mine\napi_keys = ["a-secret-by-hand"]\n')
    refused = user.blazar("config", "check")
    assert refused.status == ExitCode.CONFIG_INVALID
    assert "blazar migrate" in refused.err
    done = user.json("migrate")
    assert (done["moved"], done["hashed"]) == (["key-1"], [])
    assert load_settings(user.config_file).keys[0].hash == hash_secret("a-secret-by-hand")
    assert user.config_file.with_name("config.toml.bak").read_text().endswith('api_keys = ["a-secret-by-hand"]\n')
    assert user.json("migrate") == {"moved": [], "hashed": [], "backup": None}
    assert "Nothing to do" in user.ok("migrate")


def test_what_cannot_be_migrated_is_told(user: User) -> None:
    user.config_file.write_text("api_keys = 3\n")
    ended = user.blazar("migrate")
    assert ended.status == ExitCode.USAGE
    assert "must be an array or a table; nothing was changed" in ended.err
    assert user.config_file.read_text() == "api_keys = 3\n"


def test_a_key_that_has_used_up_its_share_is_told_to_come_again() -> None:
    refused = ApiRefused("used up", code="rate-limit-exceeded", http_status=429)
    assert refused.exit_code == ExitCode.BUSY
    assert json.dumps(str(refused)) == '"used up"'

from pathlib import Path

import pytest
import tomlkit

from blazar_store.config_file import ConfigFile
from blazar_store.errors import ConfigInvalid
from blazar_store.key_entries import Migrated, append_key, migrate_keys, names, remove_key, set_hash
from blazar_store.key_secrets import hash_secret
from blazar_store.settings import load_settings

TEXT = """# Mine.
port = 11435  # as ever

# The first.
[[keys]]
name = "alice"
key = "plain-secret" # by hand

[[keys]]
name = "bob"
hash = "{hash}"
rpm = 3

[models."m"]
ctx = 4096
""".format(hash="b" * 64)


@pytest.fixture
def file(tmp_path: Path) -> ConfigFile:
    path = tmp_path / "config.toml"
    path.write_text(TEXT)
    return ConfigFile(path)


def test_a_key_is_added_and_all_else_stays(file: ConfigFile) -> None:
    file.edit(lambda document: append_key(document, {"name": "carol", "hash": "c" * 64, "models": ("m",), "rpm": None}))
    settings = load_settings(file.path)
    assert [entry.name for entry in settings.keys] == ["alice", "bob", "carol"]
    assert settings.keys[2].models == ("m",)
    assert settings.models["m"].ctx == 4096
    text = file.path.read_text()
    for comment in ("# Mine.", "# as ever", "# The first.", "# by hand"):
        assert comment in text
    assert file.backup.read_text() == TEXT


def test_the_first_key_makes_the_table(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / "config.toml")
    file.edit(lambda document: append_key(document, {"name": "alice", "hash": "a" * 64}))
    assert [entry.name for entry in load_settings(file.path).keys] == ["alice"]


def test_a_key_is_removed(file: ConfigFile) -> None:
    file.edit(lambda document: remove_key(document, "alice"))
    file.edit(lambda document: remove_key(document, "nobody"))
    assert [entry.name for entry in load_settings(file.path).keys] == ["bob"]
    file.edit(lambda document: remove_key(document, "bob"))
    assert load_settings(file.path).keys == ()
    assert load_settings(file.path).models["m"].ctx == 4096


def test_a_new_secret_replaces_a_plain_one(file: ConfigFile) -> None:
    file.edit(lambda document: set_hash(document, "alice", "d" * 64))
    entry = load_settings(file.path).keys[0]
    assert (entry.key, entry.hash) == (None, "d" * 64)
    assert "plain-secret" not in file.path.read_text()


@pytest.mark.parametrize(
    ("legacy", "moved"),
    [
        pytest.param("api_keys = ['secret-one', 'secret-two']", ("key-1", "key-2"), id="secrets"),
        pytest.param("api_keys = [{name = 'ann', key = 'secret-one'}]", ("ann",), id="tables"),
        pytest.param("[api_keys]\n'my laptop' = 'secret-one'", ("my-laptop",), id="by name"),
        pytest.param("api_keys = ['secret-one', 'secret-one']", ("key-1",), id="twice the same"),
        pytest.param("api_keys = []", (), id="none"),
    ],
)
def test_legacy_keys_are_moved(tmp_path: Path, legacy: str, moved: tuple[str, ...]) -> None:
    file = ConfigFile(tmp_path / "config.toml")
    file.path.write_text(f"# Kept.\n{legacy}\n")
    done: list[Migrated] = []
    settings = file.edit(lambda document: done.append(migrate_keys(document)))
    assert done == [Migrated(moved=moved)]
    assert tuple(entry.name for entry in settings.keys) == moved
    if moved:
        assert settings.keys[0].secret_hash == hash_secret("secret-one")
    text = file.path.read_text()
    assert "secret-one" not in text
    assert "# Kept." in text
    assert file.backup.read_text() == f"# Kept.\n{legacy}\n"
    # Once more changes nothing.
    file.edit(lambda document: done.append(migrate_keys(document)))
    assert done[-1] == Migrated()
    assert file.path.read_text() == text


def test_plain_secrets_are_hashed_in_place(file: ConfigFile) -> None:
    done: list[Migrated] = []
    settings = file.edit(lambda document: done.append(migrate_keys(document)))
    assert done == [Migrated(hashed=("alice",))]
    assert settings.keys[0].hash == hash_secret("plain-secret")
    assert "plain-secret" not in file.path.read_text()


def test_a_name_that_is_taken_gets_a_number() -> None:
    document = tomlkit.parse("api_keys = ['secret-two']\n[[keys]]\nname = 'key-1'\nkey = 'secret-one'")
    assert migrate_keys(document).moved == ("key-1-2",)
    assert names(document) == ("key-1", "key-1-2")


@pytest.mark.parametrize("value", ["3", "[3]", "[{name = 'a'}]", "''"])
def test_what_is_no_legacy_keys_is_left_alone(tmp_path: Path, value: str) -> None:
    file = ConfigFile(tmp_path / "config.toml")
    file.path.write_text(f"api_keys = {value}\n")

    def migrate(document: tomlkit.TOMLDocument) -> None:
        migrate_keys(document)

    with pytest.raises(ValueError, match=r"must be an array|something else than a text"):
        file.edit(migrate)
    assert file.path.read_text() == f"api_keys = {value}\n"


def test_a_secret_that_cannot_travel_is_refused_by_the_check(tmp_path: Path) -> None:
    file = ConfigFile(tmp_path / "config.toml")
    with pytest.raises(ConfigInvalid):
        file.edit(lambda document: append_key(document, {"name": "a", "key": "no"}))
    assert not file.path.exists()

import pytest

from blazar_store.env_keys import parse_env_keys
from blazar_store.errors import ConfigInvalid
from blazar_store.key_secrets import hash_secret


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("  ", [], id="blank"),
        pytest.param("alice=secret-one", ["alice"], id="a pair"),
        pytest.param("alice=secret-one, bob=secret=two", ["alice", "bob"], id="an equals sign in a secret"),
        pytest.param('[{"name": "alice", "key": "secret-one", "models": ["m"], "rpm": 3}]', ["alice"], id="JSON"),
        pytest.param("[]", [], id="no JSON keys"),
    ],
)
def test_keys_are_read(text: str, names: list[str]) -> None:
    entries = parse_env_keys(text)
    assert [entry.name for entry in entries] == names
    if entries:
        assert entries[0].secret_hash == hash_secret("secret-one")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("secret-one", "entry 1 has no '='", id="no name"),
        pytest.param("alice=secret-one,bob", "entry 2 has no '='", id="no second name"),
        pytest.param("a b=secret-one", "`name` of entry 1 must be 1 to 128", id="a name"),
        pytest.param("alice=short", "`key` of entry 1 must be 8 to 512", id="a secret"),
        pytest.param("[{", "it is not a JSON array", id="broken JSON"),
        pytest.param("{}", "it is not a JSON array", id="a JSON object"),
        pytest.param('[{"name": "a", "key": "secret-one", "rpm": -1}]', "`rpm` of entry 1", id="a limit"),
        pytest.param('[{"name": "a", "key": "secret-one", "foo": 1}]', "`foo` of entry 1", id="an unknown field"),
        pytest.param("a=secret-one,a=secret-two", "'a' comes twice", id="a name twice"),
        pytest.param("a=secret-one,b=secret-one", "have the same one", id="a secret twice"),
        pytest.param('["secret-one"]', "entry 1 cannot be used", id="a text in JSON"),
    ],
)
def test_mistakes_are_told_without_secrets(text: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parse_env_keys(text)
    assert str(refused.value).startswith("BLAZAR_KEYS: ")
    assert message in str(refused.value)
    assert "secret-one" not in str(refused.value)
    assert "short" not in str(refused.value)

import pytest

from blazar_cli.chat.settings import SETTABLE, ChatSettings, SettingRefused, change_setting, chat_body, describe


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        pytest.param("temperature", "0.5", 0.5, id="number"),
        pytest.param("seed", "-7", -7, id="whole number"),
        pytest.param("max_tokens", "100", 100, id="limit"),
        pytest.param("think", "on", True, id="switch on"),
        pytest.param("verbose", "OFF", False, id="switch off, in capitals"),
        pytest.param("system", "You are terse.", "You are terse.", id="text"),
        pytest.param("seed", "", None, id="empty means the default again"),
        pytest.param("show_thinking", "", True, id="also where the default is on"),
    ],
)
def test_a_setting_takes_what_it_says(name: str, value: str, wanted: object) -> None:
    assert getattr(change_setting(ChatSettings(seed=1), name, value), name) == wanted


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("temperature", "hot", id="no number"),
        pytest.param("temperature", "-1", id="negative"),
        pytest.param("temperature", "nan", id="not a number"),
        pytest.param("top_p", "1.5", id="above one"),
        pytest.param("max_tokens", "0", id="none at all"),
        pytest.param("max_tokens", "1.5", id="half a token"),
        pytest.param("think", "maybe", id="neither on nor off"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_with_what_would(name: str, value: str) -> None:
    with pytest.raises(SettingRefused, match="it wants"):
        change_setting(ChatSettings(), name, value)


def test_an_unknown_setting_is_refused_with_those_there_are() -> None:
    with pytest.raises(SettingRefused) as refused:
        change_setting(ChatSettings(), "mood", "good")
    assert all(name in str(refused.value) for name in SETTABLE)


def test_only_what_was_set_is_sent() -> None:
    turns = [{"role": "user", "content": "hi"}]
    assert chat_body("m", turns, ChatSettings()) == {
        "model": "m",
        "messages": turns,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_settings_become_fields_of_the_request() -> None:
    settings = ChatSettings(system="Be brief.", temperature=0.0, think=False, json_answer=True, keep_alive="5m")
    body = chat_body("m", [], settings)
    assert body["messages"] == [{"role": "system", "content": "Be brief."}]
    assert body["temperature"] == 0
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["response_format"] == {"type": "json_object"}
    assert body["keep_alive"] == "5m"


def test_only_differences_from_the_defaults_are_described() -> None:
    assert describe(ChatSettings(seed=3, verbose=True)) == [("seed", "3"), ("verbose", "True")]

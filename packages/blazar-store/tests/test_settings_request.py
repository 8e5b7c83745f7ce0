"""What an owner decides about requests, and the further names of a model."""

from pathlib import Path

import pytest

from blazar_store.errors import ConfigInvalid
from blazar_store.settings import RequestSettings, Settings, parse_settings
from blazar_store.settings_request import STRIPPABLE

PATH = Path("/c/config.toml")


def parse(text: str) -> Settings:
    return parse_settings(text, path=PATH)


def request(text: str, model: str = "m") -> RequestSettings:
    found = parse(text).for_model(model).written.request
    assert found is not None
    return found


def test_parameters_are_in_the_words_of_a_chat_request() -> None:
    rules = request(
        """
        [models.m.request.default]
        temperature = 0
        stop = ["###", "end"]
        samplers = "top_k;typical"
        chat_template_kwargs = { enable_thinking = true }
        """
    )
    assert rules.default.fields() == {
        "temperature": 0,
        "stop": ["###", "end"],
        "samplers": ["top_k", "typ_p"],
        "chat_template_kwargs": {"enable_thinking": True},
    }
    assert (rules.force.fields(), rules.strip) == ({}, ())


def test_what_a_model_says_of_a_parameter_is_all_that_is_said() -> None:
    text = """
        [defaults.request]
        strip = ["tools", "seed", "top_p"]
        [defaults.request.default]
        temperature = 0.1
        top_k = 1
        [defaults.request.force]
        max_tokens = 100
        min_p = 0.2
        [models.m.request]
        strip = ["temperature"]
        [models.m.request.default]
        max_tokens = 50
        [models.m.request.force]
        seed = 7
        """
    own, other = request(text), request(text, "other")
    assert own.default.fields() == {"max_tokens": 50, "top_k": 1}
    assert own.force.fields() == {"seed": 7, "min_p": 0.2}
    assert own.strip == ("temperature", "tools", "top_p")
    assert other.strip == ("tools", "seed", "top_p")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "[models.m.request.default]\ntemperatur = 1",
            "2: unknown setting `temperatur` in [models.m.request.default]; the nearest valid name is `temperature`.",
            id="unknown-parameter",
        ),
        pytest.param(
            "[models.m.request.force]\ntop_p = 1.5",
            "2: `models.m.request.force.top_p` must be a number from 0 to 1, but is 1.5.",
            id="range",
        ),
        pytest.param(
            "[models.m.request.default]\nseed = 1\n[models.m.request.force]\nseed = 2",
            "1: `models.m.request` must be a table that says one thing of each parameter; `seed` is in `default` and in "
            "`force`.",
            id="twice",
        ),
        pytest.param(
            '[models.m.request]\nstrip = ["messages"]',
            "2: `models.m.request.strip[0]` must be the name of a parameter that can be left out: one of "
            f'{", ".join(sorted(STRIPPABLE))}, but is "messages" (text).',
            id="not-to-be-left-out",
        ),
        pytest.param(
            "[models.m]\ntemperature = 1",
            "2: `temperature` is not a setting in [models.m]; it belongs in [models.m.request.default] (where a request "
            "does not say) or [models.m.request.force] (in any case).",
            id="in-the-models-table",
        ),
        pytest.param(
            "[models.m.request]\ntemperature = 1",
            "2: `temperature` is not a setting in [models.m.request]; it belongs in [models.m.request.default] (where a "
            "request does not say) or [models.m.request.force] (in any case).",
            id="one-table-too-high",
        ),
        pytest.param("[models.m]\nrequest = 3", "2: `models.m.request` must be a table, but is 3.", id="no-table"),
        pytest.param(
            '[models.m]\naliases = ["a#2"]',
            "2: `models.m.aliases[0]` must be a name that a model could have ('#' is reserved for replicas (model#2)), "
            'but is "a#2" (text).',
            id="reserved-alias",
        ),
        pytest.param(
            '[models.m]\naliases = ["gpt-4o"]\n[models.n]\naliases = ["GPT-4O"]',
            "1: `models` must be tables whose aliases are free; 'GPT-4O' is an alias of 'm' and of 'n'.",
            id="alias-of-two",
        ),
        pytest.param(
            '[models.m]\naliases = ["N"]\n[models.n]\nctx = 1024',
            "1: `models` must be tables whose aliases are free; 'N' of 'm' is the model 'n' itself.",
            id="alias-that-is-a-model",
        ),
        pytest.param(
            '[defaults]\naliases = ["a"]',
            '2: `aliases` is not a setting in [defaults]; it belongs in [models."NAME"].',
            id="alias-of-all",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse(text)
    assert str(caught.value) == f"{PATH}:{message}"


def test_aliases_are_known_with_their_models() -> None:
    settings = parse('[models.m]\naliases = ["gpt-4o", "fast"]\n[models.n]\naliases = ["slow"]')
    assert settings.aliases() == {"gpt-4o": "m", "fast": "m", "slow": "n"}

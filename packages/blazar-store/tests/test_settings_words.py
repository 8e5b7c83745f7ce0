import json
import re
import tomllib
from pathlib import Path

import pytest

from blazar_store.settings import (
    KeyEntry,
    ModelSettings,
    PreloadEntry,
    RequestParameters,
    Settings,
    Sources,
    describe_settings,
    needs_restart,
    parse_settings,
    sample_config,
    settings_schema,
)

MODEL = 'model = "m"\n'
NESTED = {"models", "defaults", "sources", "keys", "preload"}


def test_every_setting_is_described() -> None:
    described = {(row.table, row.name) for row in describe_settings()}
    assert described == {
        *(("", name) for name in Settings.model_fields if name not in NESTED),
        *(("defaults", name) for name in ModelSettings.model_fields if name != "request"),
        ("defaults.request", "strip"),
        *(("defaults.request.default", name) for name in RequestParameters.model_fields),
        ('models."NAME"', "aliases"),
        *(("sources", name) for name in Sources.model_fields),
        *(("keys", name) for name in KeyEntry.model_fields),
        *(("preload", name) for name in PreloadEntry.model_fields),
    }


@pytest.mark.parametrize("row", describe_settings(), ids=lambda row: f"{row.table}.{row.name}")
def test_description_is_a_sentence_and_the_example_is_accepted(row: object) -> None:
    (setting,) = [known for known in describe_settings() if known == row]
    assert re.fullmatch(r"[A-Z\"`].+\.", setting.summary)
    assert setting.type
    line = f"{setting.name} = {setting.example}\n"
    match setting.table:
        case "":
            # One of the two is of no use without the other.
            others = {"tls_cert": 'tls_key = "/k.pem"\n', "tls_key": 'tls_cert = "/c.pem"\n'}
            text = line + others.get(setting.name, "")
        case "keys":
            others = {"name": 'name = "somebody"\n', "key": f'key = "{"k" * 20}"\n'}
            others.pop("key" if setting.name == "hash" else setting.name, None)
            text = f"[[keys]]\n{''.join(others.values())}{line}"
        case "preload":
            text = f"[[preload]]\n{'' if setting.name == 'model' else MODEL}{line}"
        case table:
            text = f"[{table}]\n{line}"
    parse_settings(text, path=Path("c"))


def test_only_what_is_read_once_needs_a_restart() -> None:
    once = [row.name for row in describe_settings() if row.needs_restart]
    assert once == [
        "host",
        "port",
        "tls_cert",
        "tls_key",
        "responses_keep_days",
        "responses_cap_mb",
        "model",
        "keep_alive_secs",
    ]
    assert needs_restart("port")
    assert not needs_restart("idle_timeout_secs")


def test_sample_changes_nothing_as_it_is() -> None:
    assert parse_settings(sample_config(), path=Path("c")) == Settings()


def test_sample_without_its_marks_is_valid_and_sets_everything() -> None:
    # A key has its secret or its hash, not both; so it is with templates and MCP servers.
    either = "hash|chat_template_file|mcp_servers_json"
    once = re.sub(rf"^# ({either}) = .*$", "", sample_config(), flags=re.MULTILINE)
    text = re.sub(r'^# (\w+ = |\[+[\w."]+\]+$)', r"\1", once, flags=re.MULTILINE)
    settings = parse_settings(text, path=Path("c"))
    assert tomllib.loads(text).keys() == Settings.model_fields.keys()
    assert settings.defaults.request is not None
    assert settings.defaults.request.default.top_k == 40
    assert settings.aliases() == {"gpt-4o": "NAME"}
    assert settings.port == Settings().port
    assert settings.defaults.slots == 4


def test_schema_is_json_and_refuses_what_the_models_refuse() -> None:
    schema = json.loads(json.dumps(settings_schema()))
    assert schema["additionalProperties"] is False
    assert schema["properties"]["port"]["maximum"] == 65535
    assert schema["properties"].keys() == Settings.model_fields.keys()
    assert all("description" in part for part in schema["properties"].values())

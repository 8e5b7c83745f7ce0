from pathlib import Path

import pytest

from blazar_cli.ollama_env import as_settings, describe_environment, read_ollama_defaults, unused_warning
from blazar_store.errors import ConfigInvalid
from blazar_store.settings_files import load_settings, parse_settings
from blazar_store.settings_watch import SettingsWatch

FILE = Path("config.toml")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("1h30m", 5400),
        ("300", 300),
        ("1500ms", 2),
        ("-1", 0),
        ("-1m", 0),
        ("0", 1),
        ("0s", 1),
        (' "24h" ', 86_400),
        ("999999h", 0),
        ("9999h", 366 * 86_400),
    ],
)
def test_keep_alive_becomes_the_idle_time(text: str, seconds: int) -> None:
    (default,) = read_ollama_defaults({"OLLAMA_KEEP_ALIVE": text})
    assert (default.dotted, default.value) == ("idle_timeout_secs", seconds)
    assert parse_settings("", path=FILE, below=as_settings((default,))).idle_timeout_secs == seconds


def test_the_others_become_settings_too_and_the_file_beats_each() -> None:
    defaults = read_ollama_defaults(
        {
            "OLLAMA_CONTEXT_LENGTH": "32768",
            "OLLAMA_NUM_PARALLEL": "2",
            "OLLAMA_ORIGINS": "http://192.168.1.*, app://*,https://chat.example.org/",
            "OLLAMA_DEBUG": "1",
        }
    )
    below = as_settings(defaults)
    settings = parse_settings("", path=FILE, below=below)
    knobs = settings.for_model("any")
    assert (knobs.ctx_tokens, knobs.slots) == (32_768, 2)
    assert settings.allowed_origins == ("http://192.168.1.*", "app://*", "https://chat.example.org")
    said = parse_settings('allowed_origins = []\n[defaults]\nctx = "auto"\n', path=FILE, below=below)
    assert (said.defaults.ctx, said.defaults.slots, said.allowed_origins) == ("auto", 2, ())
    told = {one["variable"]: one["holds"] for one in describe_environment(defaults, said)}
    assert told == {"OLLAMA_CONTEXT_LENGTH": False, "OLLAMA_NUM_PARALLEL": True, "OLLAMA_ORIGINS": False}


@pytest.mark.parametrize("value", ["", "  ", '""'])
def test_a_variable_set_to_nothing_is_not_set(value: str) -> None:
    assert read_ollama_defaults({"OLLAMA_KEEP_ALIVE": value, "OLLAMA_CONTEXT_LENGTH": value}) == ()
    assert read_ollama_defaults({"OLLAMA_NUM_PARALLEL": "0", "OLLAMA_CONTEXT_LENGTH": "0"}) == ()


def test_what_cannot_be_understood_is_refused_all_at_once() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        read_ollama_defaults(
            {
                "OLLAMA_KEEP_ALIVE": "soon",
                "OLLAMA_CONTEXT_LENGTH": "32k",
                "OLLAMA_NUM_PARALLEL": "9999",
                "OLLAMA_ORIGINS": "localhost:3000",
            }
        )
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    assert 'OLLAMA_KEEP_ALIVE is "soon"' in lines[0]
    assert "must be a whole number" in lines[1]
    assert "from 1 to 256" in lines[2]
    assert all(line.endswith("correct it or unset it.") for line in lines)


def test_an_edit_of_the_file_keeps_what_the_variables_say(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    watch = SettingsWatch(file, below={"idle_timeout_secs": 60})
    file.write_text("queue_limit = 3\n")
    watch.poll(force=True)
    assert (watch.settings.idle_timeout_secs, watch.settings.queue_limit) == (60, 3)
    file.write_text("idle_timeout_secs = 7\n")
    watch.poll(force=True)
    assert watch.settings.idle_timeout_secs == 7
    assert load_settings(file, below={"idle_timeout_secs": 60}).idle_timeout_secs == 7


def test_limits_of_memory_queue_and_load_become_settings() -> None:
    environ = {
        "OLLAMA_MAX_LOADED_MODELS": "2",
        "OLLAMA_MAX_QUEUE": "512",
        "OLLAMA_KV_CACHE_TYPE": "Q8_0",
        "OLLAMA_LOAD_TIMEOUT": "10m",
    }
    below = as_settings(read_ollama_defaults(environ))
    settings = parse_settings("", path=FILE, below=below)
    knobs = settings.for_model("any")
    assert (settings.max_loaded_models, settings.queue_limit) == (2, 512)
    assert (knobs.cache_type_k, knobs.cache_type_v, knobs.load_timeout_s) == ("q8_0", "q8_0", 600)
    said = parse_settings('queue_limit = 9\n[defaults]\ncache_type_v = "f16"\n', path=FILE, below=below)
    assert said.queue_limit == 9
    assert (said.defaults.cache_type_k, said.defaults.cache_type_v) == ("q8_0", "f16")


@pytest.mark.parametrize(("text", "seconds"), [("300", 300), ("5m0s", 300), ("0", 86_400), ("-1", 86_400)])
def test_the_load_timeout(text: str, seconds: int) -> None:
    (default,) = read_ollama_defaults({"OLLAMA_LOAD_TIMEOUT": text})
    assert (default.dotted, default.value) == ("load_timeout_secs", seconds)


def test_a_variable_of_two_settings_is_wrong_once() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        read_ollama_defaults({"OLLAMA_KV_CACHE_TYPE": "q9", "OLLAMA_LOAD_TIMEOUT": "soon", "OLLAMA_MAX_QUEUE": "-1"})
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert sum('OLLAMA_KV_CACHE_TYPE is "q9"' in line and "q8_0" in line for line in lines) == 1


@pytest.mark.parametrize(
    ("environ", "line"),
    [
        ({}, ""),
        ({"OLLAMA_HOST": "x", "OLLAMA_MAX_QUEUE": "4", "OLLAMA_API_KEY": "k", "PATH": "/bin"}, ""),
        ({"OLLAMA_FLASH_ATTENTION": ""}, ""),
        ({"OLLAMA_FLASH_ATTENTION": "1"}, "OLLAMA_FLASH_ATTENTION is not used by Blazar: "),
        (
            {"OLLAMA_NOPRUNE": "1", "OLLAMA_MODELS": "/m", "OLLAMA_SCHED_SPREAD": "1"},
            "OLLAMA_MODELS (`blazar import ollama` reads it), OLLAMA_NOPRUNE and OLLAMA_SCHED_SPREAD are not used by ",
        ),
    ],
)
def test_what_is_not_used_is_named_in_one_line(environ: dict[str, str], line: str) -> None:
    warning = unused_warning(environ)
    assert warning.startswith(line)
    assert "\n" not in warning
    assert bool(warning) is bool(line)

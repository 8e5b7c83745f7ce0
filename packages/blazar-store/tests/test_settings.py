import os
from pathlib import Path

import pytest

from blazar_store.errors import ConfigInvalid
from blazar_store.settings import (
    ModelSettings,
    Settings,
    load_settings,
    parse_settings,
)

PATH = Path("/c/config.toml")


def parse(text: str) -> Settings:
    return parse_settings(text, path=PATH)


def test_missing_file_means_the_defaults(tmp_path: Path) -> None:
    assert load_settings(tmp_path / "config.toml") == Settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("host", "127.0.0.1"),
        ("port", 11435),
        ("idle_timeout_secs", 1800),
        ("idle_sleep_secs", 300),
        ("child_header_timeout_secs", 120),
        ("load_timeout_secs", None),
        ("drain_timeout_secs", 10),
        ("stream_ping_secs", 5),
        ("child_transport", "tcp"),
        ("cache_ram_mb", 8192),
        ("max_loaded_models", "auto"),
    ],
)
def test_defaults_are_those_of_the_contract(name: str, value: object) -> None:
    assert getattr(Settings(), name) == value


def test_everything_can_be_set(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(
        """
        host = "0.0.0.0"
        port = 0
        allowed_origins = ["http://localhost:3000", "app://x", "*"]
        allowed_hosts = ["box.lan", "[::1]"]
        child_transport = "unix"
        max_loaded_models = 3
        load_timeout_secs = 240
        [defaults]
        slots = 2
        cache_type_k = "q8_0"
        [models."org/model:Q4"]
        ctx = 32768
        gpu_layers = "all"
        extra_args = ["--threads", "8"]
        [sources]
        python_index = "http://127.0.0.1:8000/simple"
        """
    )
    settings = load_settings(path)
    assert settings.allowed_origins == ("http://localhost:3000", "app://x", "*")
    assert settings.max_loaded_models == 3
    assert settings.defaults == ModelSettings(slots=2, cache_type_k="q8_0")
    assert settings.models["org/model:Q4"].ctx == 32768
    assert settings.sources.python_index == "http://127.0.0.1:8000/simple"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # Unknown names
        pytest.param(
            "\nprot = 1",
            "2: unknown setting `prot` at the top level; the nearest valid name is `port`.",
            id="unknown at the top",
        ),
        pytest.param(
            '[models."a b"]\nctxx = 1',
            '2: unknown setting `ctxx` in [models."a b"]; the nearest valid name is `ctx`.',
            id="unknown in a model",
        ),
        pytest.param(
            "[defaults]\nSlots = 1",
            "2: unknown setting `Slots` in [defaults]; the nearest valid name is `slots`.",
            id="case matters",
        ),
        pytest.param(
            "[sources]\nindex = 'http://x'",
            "2: unknown setting `index` in [sources]; the nearest valid name is `python_index`.",
            id="unknown in sources",
        ),
        pytest.param(
            "[model.x]\nctx = 1",
            "1: unknown setting `model` at the top level; the nearest valid name is `models`.",
            id="unknown table",
        ),
        pytest.param(
            "[[remotes]]\nurl = 1",
            "1: unknown setting `remotes` at the top level; the nearest valid name is `models`.",
            id="unknown array of tables",
        ),
        pytest.param(
            "ctx = 4096",
            '1: `ctx` is not a setting at the top level; it belongs in [defaults] (all models) or [models."NAME"] '
            "(one).",
            id="a model's setting at the top",
        ),
        pytest.param(
            "[models.x]\nport = 1",
            "2: `port` is not a setting in [models.x]; it belongs at the top of the file, before the first [table].",
            id="a global setting in a model",
        ),
        pytest.param(
            "python_index = 'http://x'",
            "1: `python_index` is not a setting at the top level; it belongs in [sources].",
            id="a source at the top",
        ),
        # Keys
        pytest.param(
            "api_keys = ['s']",
            "1: `api_keys` is what earlier versions had; `blazar migrate` turns it into [[keys]] entries, with their "
            "secrets hashed, and keeps a backup.",
            id="legacy keys",
        ),
        pytest.param(
            "[[keys]]\nname = 'a b'\nkey = 'long-enough'",
            "2: `keys[0].name` must be 1 to 128 of the characters A-Z, a-z, 0-9, dot, underscore and hyphen, but is "
            '"a b" (text).',
            id="a key's name",
        ),
        pytest.param(
            "[[keys]]\nname = 'a'\nkey = 'short'",
            "3: `keys[0].key` must be 8 to 512 printable ASCII characters without spaces, as they travel in a header.",
            id="a secret is not repeated",
        ),
        pytest.param(
            "[[keys]]\nname = 'a'\nhash = 'short'",
            "3: `keys[0].hash` must be the 64 hex digits of a SHA-256, as `blazar keys add` writes them.",
            id="a hash",
        ),
        pytest.param(
            "[[keys]]\nname = 'a'",
            "1: `keys[0]` must be an entry with either `key` (the secret) or `hash` (its SHA-256).",
            id="a key without a secret",
        ),
        pytest.param("[[keys]]\nkey = 'long-enough'", "1: `keys[0]` must have a `name`.", id="a key without a name"),
        pytest.param(
            "[[keys]]\nname = 'a'\nkey = 'long-enough'\nrpm = -1",
            "4: `keys[0].rpm` must be a non-negative integer (0 or more), but is -1.",
            id="a negative limit",
        ),
        pytest.param(
            "[[keys]]\nname = 'a'\nkey = 'long-enough'\nweight = 0",
            "4: `keys[0].weight` must be a whole number from 1 to 1000000, but is 0.",
            id="a weight of nothing",
        ),
        pytest.param(
            "[[keys]]\nname = 'a'\nkey = 'long-enough'\nexpires = 'soon'",
            "4: `keys[0].expires` must be a date or time such as 2027-01-31 or 2027-01-31T12:00:00Z, but is "
            '"soon" (text).',
            id="an expiry that is no time",
        ),
        pytest.param(
            "[[keys]]\nname = 'a'\nkey = 'long-enough'\n[[keys]]\nname = 'a'\nkey = 'another-one'",
            "1: `keys` must be entries with names of their own; 'a' comes twice.",
            id="a name twice",
        ),
        pytest.param(
            "[[keys]]\nname = 'a'\nkey = 'long-enough'\n[[keys]]\nname = 'b'\nkey = 'long-enough'",
            "1: `keys` must be entries with secrets of their own; 'a' and 'b' have the same one.",
            id="a secret twice",
        ),
        pytest.param("keys = 3", "1: `keys` must be tables [[keys]], but is 3.", id="keys of another type"),
        # Wrong types and ranges
        pytest.param(
            'port = "80"',
            '1: `port` must be a whole number from 0 to 65535, but is "80" (text).',
            id="text for a number",
        ),
        pytest.param(
            "port = true", "1: `port` must be a whole number from 0 to 65535, but is true (a boolean).", id="boolean"
        ),
        pytest.param(
            "port = 80.0",
            "1: `port` must be a whole number from 0 to 65535, but is 80.0 (not a whole number).",
            id="float",
        ),
        pytest.param("port = 65536", "1: `port` must be a whole number from 0 to 65535, but is 65536.", id="too big"),
        pytest.param("port = -1", "1: `port` must be a whole number from 0 to 65535, but is -1.", id="too small"),
        pytest.param("host = 3", "1: `host` must be a text in quotes, but is 3.", id="number for a text"),
        pytest.param(
            "host = 2026-01-01",
            "1: `host` must be a text in quotes, but is 2026-01-01 (a date or time).",
            id="date for a text",
        ),
        pytest.param(
            'host = "http://x"',
            '1: `host` must be a host name or address without scheme, path or spaces, but is "http://x" (text).',
            id="address for a host",
        ),
        pytest.param(
            'child_transport = "udp"',
            '1: `child_transport` must be one of "tcp", "unix", but is "udp" (text).',
            id="unknown word",
        ),
        pytest.param(
            "max_loaded_models = 0",
            '1: `max_loaded_models` must be "auto" or a whole number from 1 to 1024, but is 0.',
            id="union",
        ),
        pytest.param(
            'allowed_origins = "*"',
            '1: `allowed_origins` must be an array of texts, but is "*" (text).',
            id="text for an array",
        ),
        pytest.param(
            'allowed_origins = [\n  "*",\n  3,\n]',
            "1: `allowed_origins[1]` must be a text in quotes, but is 3.",
            id="element of the wrong type",
        ),
        pytest.param(
            'allowed_origins = ["localhost"]',
            '1: `allowed_origins[0]` must be an origin such as "http://localhost:3000", or "*", '
            'but is "localhost" (text).',
            id="element of the wrong form",
        ),
        pytest.param(
            '[sources]\npython_index = "ftp://x"',
            "2: `sources.python_index` must be an address that begins with http:// or https://, "
            'but is "ftp://x" (text).',
            id="wrong scheme",
        ),
        pytest.param(
            '[models.x]\nchat_template_file = "t.jinja"',
            "2: `models.x.chat_template_file` must be an absolute path, or one that begins with ~/, "
            'but is "t.jinja" (text).',
            id="relative path",
        ),
        pytest.param(
            "[models.x]\nctx = 100",
            '2: `models.x.ctx` must be "auto" or a whole number from 256 to 16777216, but is 100.',
            id="too little context",
        ),
        pytest.param(
            '[defaults]\ncache_type_v = "q3"',
            '2: `defaults.cache_type_v` must be one of "f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", '
            '"q5_1", but is "q3" (text).',
            id="unknown cache type",
        ),
        pytest.param("models = 3", "1: `models` must be a table, but is 3.", id="number for a table"),
        pytest.param("[models]\nx = 3", "2: `models.x` must be a table, but is 3.", id="number for a model"),
        pytest.param("[[defaults]]\nctx = 1", "1: `defaults` must be a table, but is an array.", id="array of tables"),
        pytest.param(
            "[models.x.ctx]\na = 1",
            '1: `models.x.ctx` must be "auto" or a whole number from 256 to 16777216, but is a table.',
            id="table for a number",
        ),
        # Names of models
        pytest.param(
            '[models."a#2"]',
            '1: [models."a#2"] cannot be the name of a model: \'#\' is reserved for replicas (model#2).',
            id="reserved name",
        ),
        pytest.param(
            "[models.a]\n[models.A]",
            "1: `models` must be one table per model; 'a' and 'A' are the same name.",
            id="one name in two spellings",
        ),
        # Null characters, which end a text on an engine's command line
        pytest.param(
            '[models.a]\nextra_args = ["--override-kv", "x=int:\\u0000"]',
            "2: `models.a.extra_args[1]` holds a null character (\\u0000), which no text here can have; take it out.",
            id="null character in an array",
        ),
        pytest.param(
            '[models.a.chat_template_kwargs]\n"a\\u0000" = 1',
            '2: `models.a.chat_template_kwargs."a\\u0000"` holds a null character (\\u0000), which no text here can '
            "have; take it out.",
            id="null character in a name",
        ),
        # What Python's reader of TOML does not take
        pytest.param(
            f"host = 'a'\nport = {'9' * 5000}",
            "2: a number has thousands of digits, which no setting needs; correct it.",
            id="a number that Python does not read",
        ),
        pytest.param(
            f"port = 0x{'f' * 5000}",
            "1: `port` must be a whole number from 0 to 65535, but is a number beyond 64 bits.",
            id="a number that Python does not show",
        ),
        pytest.param(
            f"allowed_hosts = {'[' * 3000}{']' * 3000}",
            " arrays or tables stand in each other hundreds deep, which no setting needs; take some out.",
            id="deep arrays",
        ),
        pytest.param(
            f"{'a.' * 3000}b = 1",
            " arrays or tables stand in each other hundreds deep, which no setting needs; take some out.",
            id="deep tables",
        ),
        # Broken TOML
        pytest.param(
            "a = 1\nhost = localhost",
            "2:8: this is not valid TOML: Invalid value; check quotes, brackets and the line's end.",
            id="missing quotes",
        ),
        pytest.param(
            "port = 1\nport = 2",
            "2:9: this is not valid TOML: Cannot overwrite a value; check quotes, brackets and the line's end.",
            id="twice the same",
        ),
        pytest.param(
            'host = "x',
            '1:10: this is not valid TOML: Unterminated string; check quotes, brackets and the line\'s end.',
            id="cut off",
        ),
        pytest.param(
            "a = [\n1,",
            "2:3: this is not valid TOML: Invalid value; check quotes, brackets and the line's end.",
            id="cut off in an array",
        ),
    ],
)  # fmt: skip
def test_problem_is_one_sentence_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse(text)
    assert str(caught.value) == f"{PATH}:{message}"


def test_all_problems_are_told_at_once_in_the_order_of_the_file() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse('port = "x"\nhots = "y"\n[models.m]\nslots = 0\n')
    assert [(problem.key, problem.line) for problem in caught.value.problems] == [
        ("port", 1),
        ("hots", 2),
        ("models.m.slots", 4),
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["unix", "windows"])
def test_line_is_right_after_texts_over_lines(newline: str) -> None:
    text = '[models.m]\nextra_args = [\n "a",\n """b\nc""",\n]\n# comment\nctxx = 1\n'.replace("\n", newline)
    with pytest.raises(ConfigInvalid) as caught:
        parse(text)
    assert caught.value.problems[0].line == 8


def test_file_from_windows_with_a_mark_at_the_start_is_read(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbfport = 1\r\n")
    assert load_settings(path).port == 1


def test_file_in_another_encoding_is_refused_with_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b'host = "\xe9"')
    with pytest.raises(ConfigInvalid, match=r"not UTF-8 text \(byte 8\); save it as UTF-8"):
        load_settings(path)


def test_directory_in_its_place_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="cannot be read: Is a directory"):
        load_settings(tmp_path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes with names")
def test_pipe_in_its_place_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    os.mkfifo(path)
    with pytest.raises(ConfigInvalid, match="cannot be read: it is no regular file"):
        load_settings(path)


def test_null_device_in_its_place_means_the_defaults() -> None:
    assert load_settings(Path(os.devnull)) == Settings()


def test_model_knobs_fall_from_model_to_defaults_to_global() -> None:
    settings = parse(
        """
        idle_timeout_secs = 60
        load_timeout_secs = 240
        [defaults]
        slots = 2
        ctx = 8192
        idle_sleep_secs = 0
        [models.m]
        ctx = "auto"
        extra_args = ["-a"]
        load_timeout_secs = 10
        chat_template_file = "~/t.jinja"
        """
    )
    m, other = settings.for_model("m"), settings.for_model("other")
    assert (m.ctx_tokens, other.ctx_tokens) == (None, 8192)
    assert (m.slots, other.slots) == (2, 2)
    assert (m.load_timeout_s, other.load_timeout_s) == (10, 240)
    assert (m.idle_timeout_s, m.idle_sleep_s) == (60, 0)
    assert (m.extra_args, other.extra_args) == (("-a",), ())
    assert m.chat_template_file == Path.home() / "t.jinja"
    assert other.chat_template_file is None


def test_model_knobs_without_any_setting() -> None:
    knobs = Settings().for_model("m")
    assert (knobs.ctx_tokens, knobs.slots, knobs.gpu_layers) == (None, 4, "auto")
    assert (knobs.cache_type_k, knobs.cache_type_v) == ("f16", "f16")
    assert (knobs.load_timeout_s, knobs.idle_timeout_s, knobs.idle_sleep_s) == (None, 1800, 300)


def test_model_table_is_found_in_another_case() -> None:
    assert parse("[models.Qwen]\nslots = 1").for_model("qwen").slots == 1


def test_what_a_row_brings_along_stands_between_its_table_and_the_defaults() -> None:
    settings = parse("[defaults]\nctx = 1024\nslots = 2\ngpu_layers = 1\n[models.m]\nctx = 4096\n")
    row = ModelSettings(ctx=2048, gpu_layers=3)
    m, other = settings.for_model("m", row), settings.for_model("other", row)
    assert (m.ctx_tokens, m.slots, m.gpu_layers) == (4096, 2, 3)
    assert (other.ctx_tokens, other.slots, other.gpu_layers) == (2048, 2, 3)


@pytest.mark.parametrize(("given", "missing"), [("tls_cert", "tls_key"), ("tls_key", "tls_cert")])
def test_certificate_and_key_come_together(given: str, missing: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        parse_settings(f'port = 1\n{given} = "/f.pem"\n', path=Path("c"))
    assert f"`{given}` is set and `{missing}` is not: https needs the certificate and its key. " in str(refused.value)
    both = parse_settings('tls_cert = "/c.pem"\ntls_key = "/k.pem"\n', path=Path("c"))
    assert (both.tls_cert, both.tls_key) == ("/c.pem", "/k.pem")

"""The settings of a model: what each takes, what is refused and how, and how a model's own meets the defaults."""

from pathlib import Path

import pytest

from blazar_store.errors import ConfigInvalid
from blazar_store.settings import ModelSettings, Settings, parse_settings
from blazar_store.settings_values import SAMPLERS, SPEC_TYPES, sampler_chain, spec_chain

PATH = Path("/c/config.toml")
TYPES = '"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"'


def parse(text: str) -> Settings:
    return parse_settings(text, path=PATH)


@pytest.mark.parametrize(
    "line",
    [
        "deterministic = true",
        "context_shift = false",
        "slot_prompt_similarity = 0",
        "slot_prompt_similarity = 1.0",
        'devices = ["CUDA0", "Vulkan1"]',
        'devices = ["none"]',
        'tensor_preset = "cpu-moe"',
        'tensor_preset = "cpu-moe:12"',
        'tensor_preset = "ffn-cpu"',
        "ubatch = 65536",
        "mmproj_policy = true",
        'mmproj_policy = "lazy"',
        'samplers = "top_k;top_p;typical"',
        'samplers = "Top-K; temp ;adaptive_p"',
        'chat_template = "{{ messages }}"',
        'chat_template_kwargs = { enable_thinking = true, level = 2, names = ["a"], inner = { a = 1.5 } }',
        'reasoning_effort = "xhigh"',
        "mcp_servers_json = '{\"mcpServers\": {}}'",
        'lora = ["~/a.gguf", { path = "/b.gguf", scale = 0.5 }, { path = "/c.gguf" }]',
        'spec = "auto"',
        'spec = "off"',
        'spec = "ngram-mod, draft-simple"',
        "spec_draft_prio = -1",
        "spec_draft_poll = 100",
        "spec_draft_p_min = 1",
        "spec_ngram_mod_n_min = 0",
        "cache_ram_mb = 0",
    ],
)
def test_value_is_taken_for_all_models_and_for_one(line: str) -> None:
    name = line.partition(" ")[0]
    everywhere, one = parse(f"[defaults]\n{line}"), parse(f"[models.m]\n{line}")
    taken = getattr(everywhere.for_model("m").written, name)
    assert taken is not None
    assert getattr(one.for_model("m").written, name) == taken
    assert getattr(one.for_model("other").written, name) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("deterministic = 1", "must be true or false, but is 1.", id="deterministic"),
        pytest.param('context_shift = "no"', 'must be true or false, but is "no" (text).', id="context-shift"),
        pytest.param("slot_prompt_similarity = 1.5", "must be a number from 0 to 1, but is 1.5.", id="similarity"),
        pytest.param('devices = "CUDA0"', 'must be an array of texts, but is "CUDA0" (text).', id="devices"),
        pytest.param(
            'tensor_preset = "cpu-moe:0"',
            'must be "cpu-moe" (the experts in main memory), "cpu-moe:N" (those of the first N layers), or "ffn-cpu" '
            '(every feed-forward matrix), but is "cpu-moe:0" (text).',
            id="tensor-preset",
        ),
        pytest.param("ubatch = 0", "must be a whole number from 1 to 65536, but is 0.", id="ubatch"),
        pytest.param("threads = 0", "must be a whole number from 1 to 1024, but is 0.", id="threads"),
        pytest.param(
            "mmproj_policy = 1", 'must be one of "lazy", "attach", "skip" or true or false, but is 1.', id="projector"
        ),
        pytest.param(
            'samplers = "top_k;topp"',
            f"must be samplers separated by ';', each one of {', '.join(SAMPLERS)} ('topp' is none of them, and the "
            'engine would leave it out without a word), but is "top_k;topp" (text).',
            id="sampler",
        ),
        pytest.param(
            'samplers = ""',
            f"must be samplers separated by ';', each one of {', '.join(SAMPLERS)} ('' is none of them, and the "
            'engine would leave it out without a word), but is "" (text).',
            id="no-sampler",
        ),
        pytest.param("chat_template_kwargs = [1]", "must be a table, but is an array.", id="kwargs"),
        pytest.param(
            "chat_template_kwargs = { a = 2026-01-01 }",
            "must be a table of texts, numbers, booleans, arrays and tables, as JSON has them.",
            id="kwargs-date",
        ),
        pytest.param(
            'reasoning_effort = "none"',
            'must be one of "minimal", "low", "medium", "high", "xhigh", "max", but is "none" (text).',
            id="effort",
        ),
        pytest.param(
            'mcp_servers_json = "[1]"', 'must be the text of a JSON object, but is "[1]" (text).', id="mcp-json"
        ),
        pytest.param(
            'mcp_servers_config = "mcp.json"',
            'must be an absolute path, or one that begins with ~/, but is "mcp.json" (text).',
            id="mcp-file",
        ),
        pytest.param(
            'spec = "draft"',
            f'must be "auto", "off", or some of {", ".join(SPEC_TYPES)}, separated by commas, but is "draft" (text).',
            id="spec",
        ),
        pytest.param("spec_draft_poll = 101", "must be a whole number from 0 to 100, but is 101.", id="poll"),
        pytest.param("spec_draft_prio = -2", "must be a whole number from -1 to 3, but is -2.", id="prio"),
        pytest.param("spec_draft_p_min = 1.5", "must be a number from 0 to 1, but is 1.5.", id="p-min"),
        pytest.param("spec_draft_n_max = 0", "must be a whole number from 1 to 1024, but is 0.", id="n-max"),
        pytest.param("spec_ngram_mod_n_match = 0", "must be a whole number from 1 to 1024, but is 0.", id="ngram"),
        pytest.param("spec_ngram_mod_n_max = 1025", "must be a whole number from 0 to 1024, but is 1025.", id="mod"),
        pytest.param('spec_draft_cache_type_k = "q9"', f'must be one of {TYPES}, but is "q9" (text).', id="draft-k"),
        pytest.param("lora = [3]", None, id="lora"),
    ],
)  # fmt: skip
def test_value_that_the_engine_would_swallow_or_choke_on_is_refused(line: str, message: str | None) -> None:
    name = line.partition(" ")[0]
    place = f"`models.m.{name}`" if message else "`models.m.lora[0]`"
    with pytest.raises(ConfigInvalid) as caught:
        parse(f"[models.m]\n{line}")
    assert str(caught.value) == f"{PATH}:2: {place} {message or 'must be a text in quotes or a table, but is 3.'}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            'chat_template = "chatml"\nchat_template_file = "/t"',
            "`models.m` must be a table with either `chat_template` or `chat_template_file`, not both.",
            id="templates",
        ),
        pytest.param(
            'mcp_servers_config = "/m.json"\nmcp_servers_json = "{}"',
            "`models.m` must be a table with either `mcp_servers_config` or `mcp_servers_json`, not both.",
            id="mcp",
        ),
        pytest.param(
            "spec_draft_n_min = 5\nspec_draft_n_max = 3",
            "`models.m` must be a table in which `spec_draft_n_min` is not more than `spec_draft_n_max` (5 > 3).",
            id="draft-tokens",
        ),
        pytest.param(
            "spec_ngram_mod_n_min = 65\nspec_ngram_mod_n_max = 64",
            "`models.m` must be a table in which `spec_ngram_mod_n_min` is not more than `spec_ngram_mod_n_max` "
            "(65 > 64).",
            id="ngram-tokens",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse(f"[models.m]\n{text}")
    assert str(caught.value) == f"{PATH}:1: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("spec_draft_nmax = 3", "the nearest valid name is `spec_draft_n_max`.", id="setting"),
        pytest.param('lora = [{ path = "/a", scal = 1 }]', "the nearest valid name is `scale`.", id="in-an-adapter"),
    ],
)
def test_unknown_name_is_refused_with_the_nearest(text: str, message: str) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse(f"[models.m]\n{text}")
    assert str(caught.value).endswith(message)


def test_adapter_without_a_path_is_refused() -> None:
    with pytest.raises(ConfigInvalid, match=r"`models\.m\.lora\[0\]` must have a `path`\."):
        parse("[models.m]\nlora = [{ scale = 1 }]")


def test_a_models_own_half_of_a_pair_replaces_both_halves_of_the_defaults() -> None:
    settings = parse(
        """
        [defaults]
        chat_template = "chatml"
        spec_draft_n_min = 8
        spec_draft_n_max = 9
        [models.m]
        chat_template_file = "/t.jinja"
        spec_draft_n_max = 4
        """
    )
    own, other = settings.for_model("m").written, settings.for_model("n").written
    assert own == ModelSettings(chat_template_file="/t.jinja", spec_draft_n_max=4)
    assert other == ModelSettings(chat_template="chatml", spec_draft_n_min=8, spec_draft_n_max=9)


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("", "attach"),
        ("mmproj_policy = true", "attach"),
        ("mmproj_policy = false", "skip"),
        ('mmproj_policy = "lazy"', "lazy"),
    ],
)
def test_projector_policy_has_two_spellings(text: str, policy: str) -> None:
    assert parse(f"[models.m]\n{text}").for_model("m").mmproj_policy == policy


def test_deterministic_forces_one_slot() -> None:
    assert parse("[models.m]\ndeterministic = true\nslots = 8").for_model("m").slots == 1


def test_prompt_cache_falls_from_model_to_defaults_to_global() -> None:
    settings = parse("cache_ram_mb = 3\n[defaults]\ncache_ram_mb = 2\n[models.m]\ncache_ram_mb = 0")
    assert [settings.for_model(name).cache_ram_mb for name in ("m", "n")] == [0, 2]
    assert parse("cache_ram_mb = 3").for_model("m").cache_ram_mb == 3


def test_chain_of_samplers_is_in_the_engines_words() -> None:
    assert sampler_chain("temp; Typical;nucleus;top-n-sigma") == ("temperature", "typ_p", "top_p", "top_n_sigma")


def test_kinds_of_speculation_are_listed() -> None:
    assert spec_chain("ngram-mod, draft-mtp") == ("ngram-mod", "draft-mtp")
    assert spec_chain("auto") == spec_chain("off") == ()

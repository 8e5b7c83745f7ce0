"""Each setting of a model: what stands in ``config.toml``, what the engine is told, and what is refused.

The table's ids are the settings' names; docs/reference/knobs.md names them.
"""

import importlib.resources
from dataclasses import replace
from pathlib import Path

import pytest

from blazar_routing.errors import ProfileRejected
from blazar_store.settings import describe_settings, parse_settings
from blazar_store.settings_engine import EngineSettings
from blazar_store.settings_speculation import SpeculationSettings
from blazar_store.testing import make_engine, make_model
from blazar_supervisor.engines.llamacpp.argv import compile_profile
from blazar_supervisor.engines.llamacpp.knobs import FFN_PATTERN, KNOBS
from blazar_supervisor.engines.manifest import Manifest, parse_help
from blazar_supervisor.engines.profile import Profile
from blazar_supervisor.residency.planner import knobs_for

HELP = (importlib.resources.files("blazar_stubs") / "data" / "llama-server-b10434.help.txt").read_text("utf-8")
B10434 = parse_help(HELP)
RAM = 64 << 30
FFN = FFN_PATTERN + "=CPU"


def without(*spellings: str) -> Manifest:
    return Manifest(tuple(flag for flag in B10434.flags if not set(flag.spellings) & set(spellings)))


def compiled(
    lines: str,
    *,
    manifest: Manifest = B10434,
    top: str = "",
    defaults: str = "",
    predicts: bool = False,
    accepted: float | None = None,
    arch: str = "qwen35",
) -> Profile:
    """Return the profile of a model about which ``lines`` say something."""
    text = f"{top}\n[defaults]\n{defaults}\n[models.tiny]\n{lines}"
    row = make_model("tiny", arch=arch, mmproj_path=Path("/weights/mmproj.gguf"))
    knobs = replace(knobs_for(row, parse_settings(text, path=Path("c"))), predicts=predicts, accepted=accepted)
    return compile_profile(
        row, make_engine("b1"), knobs, manifest, ctx_tokens=knobs.ctx or 8192, ram_bytes=RAM, environ={}
    )


def words(profile: Profile) -> str:
    return " ".join(profile.args)


PLAIN = words(compiled(""))
DRAFT = 'spec_draft_model = "/d.gguf"\n'

BECOMES: dict[str, list[tuple[str, str]]] = {
    "ctx": [("ctx = 4096", "-c 4096")],
    "slots": [("slots = 2", "-np 2"), ("slots = 1", "-np 1 -ub 512 -mm")],
    "deterministic": [("deterministic = true\nslots = 8", "-np 1 -ub 512 -mm"), ("deterministic = false", "-np 4")],
    "ubatch": [("ubatch = 1024", "-ub 1024 -kvu"), ("ubatch = 4096", "-ub 4096 -b 4096")],
    "cache_type_k": [('cache_type_k = "q8_0"', "-ctk q8_0")],
    "cache_type_v": [('cache_type_v = "q4_0"', "-ctv q4_0")],
    "gpu_layers": [("gpu_layers = 12", "-ngl 12"), ('gpu_layers = "all"', "-ngl all")],
    "devices": [('devices = ["CUDA0", "CUDA1"]', "-dev CUDA0,CUDA1"), ('devices = ["none"]', "-dev none")],
    "tensor_preset": [
        ('tensor_preset = "cpu-moe"', "-cmoe"),
        ('tensor_preset = "cpu-moe:7"', "-ncmoe 7"),
        ('tensor_preset = "ffn-cpu"', f"-ot {FFN}"),
    ],
    "threads": [("threads = 6", "-t 6")],
    "threads_batch": [("threads_batch = 7", "-tb 7")],
    "samplers": [('samplers = "top_k;top_p;typical;temp"', "--samplers top_k;top_p;typ_p;temperature")],
    "slot_prompt_similarity": [("slot_prompt_similarity = 0.5", "-sps 0.5")],
    "chat_template": [
        ('chat_template = "chatml"', "--chat-template chatml"),
        ("chat_template = '{{ x }}'", "--chat-template {{ x }}"),
    ],
    "chat_template_file": [('chat_template_file = "/t.jinja"', "--chat-template-file /t.jinja")],
    "chat_template_kwargs": [
        (
            'chat_template_kwargs = { enable_thinking = true, who = "é" }',
            '--chat-template-kwargs {"enable_thinking":true,"who":"é"}',
        ),
    ],
    "reasoning_effort": [('reasoning_effort = "high"', "--reasoning-effort high")],
    "mcp_servers_config": [('mcp_servers_config = "/m.json"', "--mcp-servers-config /m.json")],
    "mcp_servers_json": [("mcp_servers_json = '{}'", "--mcp-servers-json {}")],
    "mmproj_policy": [
        ('mmproj_policy = "attach"', "-mm /weights/mmproj.gguf"),
        ("mmproj_policy = true", "-mm /weights/mmproj.gguf"),
        ('mmproj_policy = "skip"\nextra_args = ["-mm", "/mine.gguf"]', "-mm /mine.gguf"),
    ],
    "lora": [
        ('lora = ["/a.gguf", "/b:c.gguf"]', "--lora /a.gguf,/b:c.gguf"),
        ('lora = ["/a.gguf", { path = "/b.gguf", scale = 0.5 }]', "--lora-scaled /a.gguf:1,/b.gguf:0.5"),
    ],
    "context_shift": [("context_shift = true", "--context-shift")],
    "spec": [('spec = "ngram-mod,ngram-simple"', "--spec-type ngram-mod,ngram-simple")],
    "spec_draft_model": [(DRAFT, "--spec-type draft-simple --spec-draft-model /d.gguf")],
    "spec_draft_n_max": [(f"{DRAFT}spec_draft_n_max = 8", "--spec-draft-n-max 8")],
    "spec_draft_n_min": [(f"{DRAFT}spec_draft_n_min = 2", "--spec-draft-n-min 2")],
    "spec_draft_p_min": [(f"{DRAFT}spec_draft_p_min = 0.5", "--spec-draft-p-min 0.5")],
    "spec_draft_p_split": [(f"{DRAFT}spec_draft_p_split = 0.2", "--spec-draft-p-split 0.2")],
    "spec_draft_gpu_layers": [(f"{DRAFT}spec_draft_gpu_layers = 9", "--spec-draft-ngl 9")],
    "spec_draft_devices": [(f'{DRAFT}spec_draft_devices = ["CUDA0"]', "--spec-draft-device CUDA0")],
    "spec_draft_cache_type_k": [(f'{DRAFT}spec_draft_cache_type_k = "q8_0"', "--spec-draft-type-k q8_0")],
    "spec_draft_cache_type_v": [(f'{DRAFT}spec_draft_cache_type_v = "q8_0"', "--spec-draft-type-v q8_0")],
    "spec_draft_threads": [(f"{DRAFT}spec_draft_threads = 3", "--spec-draft-threads 3")],
    "spec_draft_threads_batch": [(f"{DRAFT}spec_draft_threads_batch = 3", "--spec-draft-threads-batch 3")],
    "spec_draft_poll": [(f"{DRAFT}spec_draft_poll = 0", "--spec-draft-poll 0")],
    "spec_draft_prio": [(f"{DRAFT}spec_draft_prio = 2", "--spec-draft-prio 2")],
    "spec_draft_n_cpu_moe": [(f"{DRAFT}spec_draft_n_cpu_moe = 4", "--spec-draft-n-cpu-moe 4")],
    **{
        f"spec_{kind.replace('-', '_')}_{name}": [
            (f'spec = "{kind}"\nspec_{kind.replace("-", "_")}_{name} = 5', f"--spec-{kind}-{name.replace('_', '-')} 5")
        ]
        for kind, names in {
            "ngram-mod": ("n_match", "n_min", "n_max"),
            "ngram-simple": ("size_n", "size_m", "min_hits"),
            "ngram-map-k": ("size_n", "size_m", "min_hits"),
            "ngram-map-k4v": ("size_n", "size_m", "min_hits"),
        }.items()
        for name in names
    },
    "idle_sleep_secs": [("idle_sleep_secs = 60", "--sleep-idle-seconds 60")],
    "cache_ram_mb": [
        ("cache_ram_mb = 100", "--cache-ram 100"),
        ("cache_ram_mb = 1048576", f"--cache-ram {int(RAM * 0.3) >> 20}"),
    ],
    "extra_args": [('extra_args = ["--seed", "7"]', "--seed 7")],
}

BY_SETTING = [
    pytest.param(text, flag, id=setting if number == 0 else f"{setting}-{number + 1}")
    for setting, cases in BECOMES.items()
    for number, (text, flag) in enumerate(cases)
]


@pytest.mark.parametrize(("text", "flag"), BY_SETTING)
def test_setting_becomes_its_flag_exactly_once(text: str, flag: str) -> None:
    profile = compiled(text)
    assert f" {flag}" in f" {words(profile)} --"
    assert profile.args.count(flag.split()[0]) == 1
    assert not any("no effect" in warning for warning in profile.warnings)


@pytest.mark.parametrize(("text", "flag"), BY_SETTING)
def test_setting_for_all_models_does_the_same(text: str, flag: str) -> None:
    assert compiled("", defaults=text).args == compiled(text).args
    assert flag.split()[0] in words(compiled("", defaults=text))


def test_every_setting_has_its_row_and_every_flag_its_case() -> None:
    rows = [knob.setting for knob in KNOBS]
    assert len(rows) == len(set(rows))
    assert {*EngineSettings.model_fields, *SpeculationSettings.model_fields} <= set(rows)
    assert {knob.setting for knob in KNOBS if knob.flags} == BECOMES.keys()


def test_every_row_is_a_setting() -> None:
    written = {setting.name for setting in describe_settings() if setting.table == "defaults"}
    assert {knob.setting for knob in KNOBS} <= written


def test_without_any_setting_the_vector_is_what_it_was() -> None:
    assert PLAIN == (
        "-m /weights/tiny.gguf --alias tiny -c 8192 -np 4 -ub 512 -kvu -mm /weights/mmproj.gguf "
        "--sleep-idle-seconds 300 --cache-ram 8192 --sse-ping-interval 5 --metrics --slots --no-ui -lv 4"
    )


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("context_shift = false", id="context-shift-is-off-anyway"),
        pytest.param("slot_prompt_similarity = 0", id="nought-is-the-engines-own"),
        pytest.param('spec = "off"\nspec_draft_n_max = 3', id="no-speculation-no-flags-of-it"),
        pytest.param('spec = "auto"', id="nothing-to-guess-with"),
        pytest.param("lora = []", id="no-adapters"),
        pytest.param("chat_template_kwargs = {}", id="no-arguments"),
        pytest.param('gpu_layers = "auto"', id="layers-fitted-by-the-engine"),
        pytest.param('cache_type_k = "f16"', id="the-engines-own-cache-type"),
        pytest.param("ubatch = 512", id="the-default-batch"),
    ],
)
def test_what_changes_nothing_adds_nothing(text: str) -> None:
    assert words(compiled(text)) == PLAIN


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        pytest.param('mmproj_policy = "skip"', "-mm", id="skip"),
        pytest.param("mmproj_policy = false", "-mm", id="false"),
        pytest.param("idle_sleep_secs = 0", "--sleep-idle-seconds", id="never-sleeps"),
        pytest.param("slots = 1", "-kvu", id="one-slot-shares-nothing"),
        pytest.param(f"{DRAFT}spec_draft_prio = -1", "--spec-draft-prio", id="priority-as-it-is"),
    ],
)
def test_what_is_switched_off_is_left_out(text: str, gone: str) -> None:
    assert gone not in compiled(text).args


def test_model_goes_before_defaults() -> None:
    assert "-t 3" in words(compiled("threads = 3", defaults="threads = 9\nthreads_batch = 9"))
    assert "-tb 9" in words(compiled("threads = 3", defaults="threads = 9\nthreads_batch = 9"))


# Speculation


@pytest.mark.parametrize(
    ("predicts", "accepted", "kinds"),
    [
        pytest.param(False, None, None, id="no-heads"),
        pytest.param(True, None, "draft-mtp", id="heads"),
        pytest.param(True, 0.3, "draft-mtp", id="good-guesses"),
        pytest.param(True, 0.29, None, id="bad-guesses"),
    ],
)
def test_auto_uses_the_files_own_heads_while_they_guess_well(
    predicts: bool, accepted: float | None, kinds: str | None
) -> None:
    args = compiled("", predicts=predicts, accepted=accepted).args
    assert ("--spec-type" in args) == (kinds is not None)
    assert kinds is None or args[args.index("--spec-type") + 1] == kinds


def test_heads_that_not_every_build_can_use_are_for_who_asks() -> None:
    assert "--spec-type" not in compiled("", arch="glm-dsa", predicts=True).args
    assert "--spec-type draft-mtp" in words(compiled('spec = "draft-mtp"', arch="glm-dsa", predicts=True))


def test_auto_does_without_heads_on_a_build_that_cannot_use_them() -> None:
    older = parse_help(HELP.replace("draft-mtp,", ""))
    assert "--spec-type" not in compiled("", manifest=older, predicts=True).args
    assert "--spec-type" not in compiled("", manifest=without("--spec-type"), predicts=True).args


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        pytest.param(
            "spec_draft_n_max = 3", "spec_draft_n_max has no effect: nothing guesses tokens ahead", id="nothing-guesses"
        ),
        pytest.param(
            'spec = "ngram-mod"\nspec_draft_n_max = 3\nspec_ngram_simple_size_n = 4',
            "spec_draft_n_max, spec_ngram_simple_size_n has no effect: `spec` is ngram-mod",
            id="another-kind",
        ),
    ],
)
def test_setting_that_no_kind_reads_is_told(text: str, warning: str) -> None:
    assert compiled(text).warnings == (warning,)


def test_the_users_own_kind_of_speculation_wins() -> None:
    args = compiled(
        'spec = "ngram-mod"\nextra_args = ["--spec-type", "ngram-simple"]\nspec_ngram_simple_size_n = 4'
    ).args
    assert args.count("--spec-type") == 1
    assert "--spec-ngram-simple-size-n" in args


# What a build lacks


def test_effort_is_a_template_argument_where_there_is_no_flag_for_it() -> None:
    text = 'reasoning_effort = "low"\nchat_template_kwargs = { a = 1 }'
    args = words(compiled(text, manifest=without("--reasoning-effort")))
    assert '--chat-template-kwargs {"a":1,"reasoning_effort":"low"}' in args
    assert "--reasoning-effort" not in args


REFUSED = [
    pytest.param(
        'samplers = "adaptive_p"',
        without("--adaptive-target"),
        "samplers: this build has no 'adaptive_p'; it has dry, infill, min_p, penalties, temperature, top_k, "
        "top_n_sigma, top_p, typ_p, xtc",
        id="sampler-of-a-newer-build",
    ),
    pytest.param(
        'mcp_servers_json = "{}"',
        without("--mcp-servers-json"),
        "the engine 'b1' has no flag '--mcp-servers-json', which `mcp_servers_json` needs",
        id="flag-of-a-newer-build",
    ),
    pytest.param(
        'chat_template = "chatmll"',
        B10434,
        "chat_template = 'chatmll' is neither Jinja text nor a template that the engine has built in; the nearest it "
        "has is 'chatml'",
        id="template-with-a-typo",
    ),
    pytest.param(
        'lora = ["/a,b.gguf"]',
        B10434,
        "lora: the engine reads ',' as a separator, so '/a,b.gguf' cannot be passed; rename the file",
        id="adapter-with-a-comma",
    ),
    pytest.param(
        'lora = [{ path = "/a:b.gguf", scale = 2 }]',
        B10434,
        "lora: the engine reads ':' as a separator, so '/a:b.gguf' cannot be passed; rename the file",
        id="adapter-with-a-colon",
    ),
    pytest.param(
        'spec = "draft-simple"',
        B10434,
        "spec = 'draft-simple' needs a draft model: set `spec_draft_model` to its GGUF",
        id="no-draft-model",
    ),
    pytest.param(
        'spec = "draft-mtp"',
        B10434,
        "spec = 'draft-mtp' needs a model with heads that predict further tokens, and this one has none",
        id="no-heads",
    ),
    pytest.param(
        'spec = "ngram-mod"',
        without("--spec-type"),
        "the engine 'b1' cannot guess tokens by 'ngram-mod': it has no flag '--spec-type'",
        id="no-speculation",
    ),
    pytest.param(
        'extra_args = ["--samplers", "top_k;nope"]',
        B10434,
        "'--samplers' in extra_args takes samplers separated by ';', each one of penalties, dry, top_n_sigma, top_k, "
        "typ_p, top_p, min_p, xtc, temperature, infill, adaptive_p ('nope' is none of them, and the engine would leave "
        "it out without a word)",
        id="sampler-in-extra-args",
    ),
    pytest.param(
        'extra_args = ["--embd-gemma-default"]',
        B10434,
        "'--embd-gemma-default' cannot stand in extra_args: the model row names the file; `blazar pull` fetches one",
        id="preset-that-downloads",
    ),
    *(
        pytest.param(
            f"extra_args = {list(spelled)!r}",
            B10434,
            f"'{spelled[0].partition('=')[0]}' cannot stand in extra_args: {why}",
            id=f"owned {' '.join(spelled)}",
        )
        for spelled, why in (
            (("--port=1",), "Blazar chooses where its engines listen"),
            (("--port", "1"), "Blazar chooses where its engines listen"),
            (("--host=0.0.0.0",), "Blazar chooses where its engines listen"),
            (("-m", "/x"), "the model row names the file"),
            (("--model=/x",), "the model row names the file"),
            (("-hf", "a/b"), "the model row names the file; `blazar pull` fetches one"),
            (("--api-key=k",), "each engine gets a secret of its own"),
            (("--api_key", "k"), "each engine gets a secret of its own"),
            (("-a", "x"), "the engine answers under the row's name"),
            (("--slot_save_path=/x",), "Blazar keeps saved sessions itself"),
            (("-c", "1"), "set `ctx` instead, so that memory is checked"),
            (("-np", "1"), "set `slots` instead, so that requests are admitted accordingly"),
            (("-cram", "1"), "set `cache_ram_mb` instead, so that the cap holds"),
            (("--log-colors", "on"), "Blazar reads the engine's log"),
            (("-hfd", "a/b"), "`spec_draft_model` names the file; `blazar pull` fetches one"),
            (("--mmproj-url", "x"), "the model row names the projector; `blazar pull` fetches one"),
            (("-hft", "x"), "an engine fetches nothing"),
        )
    ),
]


@pytest.mark.parametrize(("text", "manifest", "reason"), REFUSED)
def test_what_cannot_be_is_refused_with_the_reason(text: str, manifest: Manifest, reason: str) -> None:
    with pytest.raises(ProfileRejected) as caught:
        compiled(text, manifest=manifest)
    assert caught.value.reason == reason

"""Config in, argument vector out, and the text of each refusal."""

import importlib.resources
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from blazar_routing.errors import ProfileRejected
from blazar_store.testing import make_engine, make_model
from blazar_supervisor.children.endpoint import tcp_endpoint, unix_endpoint
from blazar_supervisor.engines.llamacpp.arguments import OWNED
from blazar_supervisor.engines.llamacpp.argv import compile_profile, complete_argv
from blazar_supervisor.engines.manifest import Manifest, parse_help
from blazar_supervisor.engines.profile import Knobs, Profile, Vectors

HELP = (importlib.resources.files("blazar_stubs") / "data" / "llama-server-b10434.help.txt").read_text("utf-8")
B10434 = parse_help(HELP)
RAM = 64 << 30


def compiled(manifest: Manifest = B10434, **knobs: Any) -> Profile:
    row = make_model("tiny", mmproj_path=Path("/weights/mmproj.gguf"))
    return compile_profile(
        row, make_engine("b1"), Knobs(**knobs), manifest, ctx_tokens=8192, ram_bytes=RAM, environ={"PATH": "/bin"}
    )


def without(*spellings: str) -> Manifest:
    return Manifest(tuple(flag for flag in B10434.flags if not set(flag.spellings) & set(spellings)))


def test_the_whole_vector_over_tcp() -> None:
    argv = complete_argv(compiled(), tcp_endpoint(41000), Path("/run/tiny.apikey"))
    assert " ".join(argv) == snapshot(
        "/opt/llama.cpp/llama-server --host 127.0.0.1 --port 41000 --api-key-file /run/tiny.apikey "
        "-m /weights/tiny.gguf --alias tiny -c 8192 -np 4 -ub 512 -kvu --sleep-idle-seconds 300 --cache-ram 8192 "
        "--sse-ping-interval 5 --metrics --slots --no-ui -lv 4"
    )


def test_over_a_unix_socket_only_the_address_differs() -> None:
    tcp = complete_argv(compiled(), tcp_endpoint(41000), Path("/k"))
    unix = complete_argv(compiled(), unix_endpoint(Path("/run/tiny.sock")), Path("/k"))
    assert unix == (tcp[0], "--host", "/run/tiny.sock", *tcp[5:])


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        pytest.param({"cache_type_k": "q8_0"}, "-ctk q8_0", id="cache-type-k"),
        pytest.param({"cache_type_v": "q4_0"}, "-ctv q4_0", id="cache-type-v"),
        pytest.param({"gpu_layers": "all"}, "-ngl all", id="gpu-layers"),
        pytest.param({"slots": 2}, "-np 2", id="slots"),
        pytest.param({"ubatch": 1024}, "-ub 1024", id="ubatch"),
        pytest.param({"chat_template_file": Path("/t.jinja")}, "--chat-template-file /t.jinja", id="template-file"),
        pytest.param({"mmproj": True}, "-mm /weights/mmproj.gguf", id="projector"),
        pytest.param({"cache_ram_mb": 100}, "--cache-ram 100", id="cache-ram"),
        pytest.param({"cache_ram_mb": 1 << 20}, f"--cache-ram {int(RAM * 0.3) >> 20}", id="cache-ram-capped"),
        pytest.param({"cache_ram_mb": -1}, f"--cache-ram {int(RAM * 0.3) >> 20}", id="cache-ram-unlimited-is-capped"),
        pytest.param({"idle_sleep_s": 60}, "--sleep-idle-seconds 60", id="sleep"),
        pytest.param(
            {"vectors": Vectors("embeddings", "mean"), "ubatch": 2048},
            "-b 2048 --embeddings --pooling mean",
            id="vectors-of-a-text-model",
        ),
        pytest.param({"vectors": Vectors("embeddings"), "ubatch": 512}, "-b 512 --embeddings", id="embedder"),
        pytest.param({"vectors": Vectors("reranking"), "ubatch": 512}, "-b 512 --reranking", id="reranker"),
        pytest.param(
            {"vectors": Vectors("embeddings", "mean"), "extra_args": ("--pooling", "last")},
            "--pooling last",
            id="own-pooling",
        ),
        pytest.param({"extra_args": ("--top-k=40",)}, "--top-k 40", id="equals-sign-is-split"),
        pytest.param({"extra_args": ("--flash_attn", "on")}, "--flash-attn on", id="underscores-are-folded"),
        pytest.param({"extra_args": ("--seed", "-1")}, "--seed -1", id="negative-value"),
        pytest.param({"extra_args": ("-ub", "256")}, "-ub 256", id="the-users-own-wins"),
        pytest.param({"mmproj": True, "extra_args": ("--mmproj", "/x.gguf")}, "--mmproj /x.gguf", id="own-projector"),
    ],
)
def test_a_knob_becomes_its_flag_exactly_once(knobs: dict[str, Any], words: str) -> None:
    args = compiled(**knobs).args
    flag = words.split()[0]
    assert words in " ".join(args)
    assert args.count(flag) == 1


def test_the_users_own_replaces_ours_in_any_spelling() -> None:
    args = compiled(extra_args=("--ubatch-size", "256")).args
    assert "-ub" not in args
    assert compiled(mmproj=True, extra_args=("-mm", "/x.gguf")).args.count("-mm") == 1


@pytest.mark.parametrize(
    ("missing", "gone"),
    [
        pytest.param(("--sleep-idle-seconds",), "--sleep-idle-seconds", id="sleep"),
        pytest.param(("--sse-ping-interval",), "--sse-ping-interval", id="ping"),
        pytest.param(("--cache-ram",), "--cache-ram", id="cache-ram"),
        pytest.param(("--metrics",), "--metrics", id="metrics"),
        pytest.param(("--no-ui",), "--no-ui", id="ui"),
    ],
)
def test_what_a_build_lacks_and_can_do_without_is_left_out(missing: tuple[str, ...], gone: str) -> None:
    assert gone not in compiled(without(*missing)).args


def test_an_older_spelling_is_found() -> None:
    older = parse_help(HELP.replace("--ui,  --webui, --no-ui, --no-webui", "--webui, --no-webui            "))
    assert "--no-webui" in compiled(older).args


def test_without_a_shared_cache_one_request_gets_the_whole_context() -> None:
    profile = compiled(without("-kvu"))
    assert (profile.slots, profile.ctx_tokens) == (1, 8192)
    assert "one request at a time" in profile.warnings[0]


def test_sleep_switched_off_passes_no_flag() -> None:
    profile = compiled(idle_sleep_s=0)
    assert profile.sleep_s is None
    assert "--sleep-idle-seconds" not in profile.args


@pytest.mark.parametrize(
    ("knobs", "reason"),
    [
        pytest.param(
            {"extra_args": ("--flsh-attn", "on")},
            "the engine 'b1' has no flag '--flsh-attn'; the nearest it has is '--flash-attn'",
            id="unknown",
        ),
        pytest.param(
            {"extra_args": ("--draft", "3")},
            "the engine 'b1' has removed '--draft': the argument has been removed. use --spec-draft-n-max or "
            "--spec-ngram-mod-n-max (env: LLAMA_ARG_DRAFT_MAX)",
            id="removed",
        ),
        pytest.param(
            {"extra_args": ("-c", "1000")},
            "'-c' cannot stand in extra_args: set `ctx` instead, so that memory is checked",
            id="owned",
        ),
        pytest.param(
            {"extra_args": ("--no_slots",)}, "'--no_slots' cannot stand in extra_args: it is always on", id="negation"
        ),
        pytest.param({"extra_args": ("40",)}, "extra_args has the value '40' without a flag before it", id="stray"),
        pytest.param(
            {"extra_args": ("--top-k",)}, "'--top-k' in extra_args needs a value (N) and has none", id="no-value"
        ),
        pytest.param(
            {"cache_type_k": "q9"},
            "cache_type_k = 'q9' is not one of f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, q5_1",
            id="cache-type",
        ),
        pytest.param({"slots": 0}, "slots = 0: at least one is needed", id="slots"),
        pytest.param({"ubatch": 0}, "ubatch = 0: at least 1 is needed", id="ubatch"),
    ],
)
def test_a_knob_that_cannot_be_used_is_refused_with_the_reason(knobs: dict[str, Any], reason: str) -> None:
    with pytest.raises(ProfileRejected) as caught:
        compiled(**knobs)
    assert caught.value.reason == reason


@pytest.mark.parametrize("flag", sorted(OWNED))
def test_every_owned_flag_is_refused_whatever_its_spelling(flag: str) -> None:
    entry = B10434.find(flag)
    for spelling in entry.spellings if entry else ():
        with pytest.raises(ProfileRejected, match="cannot stand in extra_args"):
            compiled(extra_args=(spelling, *["1"] * (entry.values if entry else 0)))


def test_a_build_without_a_needed_flag_is_refused() -> None:
    with pytest.raises(ProfileRejected, match="has no flag '--api-key-file'"):
        compiled(without("--api-key-file"))


def test_an_alias_is_never_split() -> None:
    # Rows of earlier versions may have such a name; none can be added now.
    with pytest.raises(ProfileRejected, match="its name holds a comma"):
        compile_profile(
            make_model("a,b"), make_engine("b1"), Knobs(), B10434, ctx_tokens=8192, ram_bytes=RAM, environ={}
        )

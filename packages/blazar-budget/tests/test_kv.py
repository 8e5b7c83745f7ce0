"""Hand-worked caches, and what holds for every model."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from blazar_budget import CacheKind, CacheType, UnknownCacheType, UnservableSettings, cache_type, is_known, kv_cache
from blazar_budget.testing import made_up, plain_decoder
from blazar_gguf import GgufMeta

MIB = 1 << 20

SHAPE: Mapping[str, object] = {
    "context_length": 32768,
    "block_count": 12,
    "embedding_length": 512,
    "feed_forward_length": 1024,
    "attention.head_count": 8,
    "attention.head_count_kv": 2,
}


def shaped(arch: str, **keys: object) -> GgufMeta:
    return made_up(arch, dict(SHAPE) | {key.replace("__", "."): value for key, value in keys.items()})


def test_a_plain_model_keeps_k_and_v_of_every_layer() -> None:
    kv = kv_cache(plain_decoder(), ctx=8192, parallel=1)
    assert kv.kv_bytes == 2 * 32 * 8 * 128 * 8192 * 2
    assert (kv.recurrent_bytes, kv.cells, kv.approximate) == (0, 8192, False)
    assert [layer.kv_bytes for layer in kv.layers] == [kv.kv_bytes // 32] * 32


@pytest.mark.parametrize(
    ("type_k", "type_v", "share"),
    [
        ("f32", "f32", 2.0),
        ("f16", "f16", 1.0),
        ("bf16", "f16", 1.0),
        ("q8_0", "q8_0", 0.53125),
        ("q5_1", "q5_1", 0.375),
        ("q5_0", "q5_0", 0.34375),
        ("q4_1", "q4_1", 0.3125),
        ("q4_0", "iq4_nl", 0.28125),
        ("q8_0", "f16", (0.53125 + 1) / 2),
    ],
)
def test_quantised_caches_cost_their_true_share(type_k: str, type_v: str, share: float) -> None:
    full = kv_cache(plain_decoder(), ctx=8192).kv_bytes
    assert kv_cache(plain_decoder(), ctx=8192, type_k=type_k, type_v=type_v).kv_bytes == full * share


def test_window_layers_are_charged_by_their_window() -> None:
    kv = kv_cache(shaped("gemma3", attention__sliding_window=1024), ctx=32768, parallel=1)
    row = 2 * 2 * 64 * 2
    assert kv.kv_bytes == row * (2 * 32768 + 10 * 1536)
    assert [layer.layer for layer in kv.layers if layer.kinds == (CacheKind.BASE,)] == [5, 11]


def test_a_full_size_window_cache_costs_like_any_other() -> None:
    meta = shaped("gemma3", attention__sliding_window=1024)
    assert kv_cache(meta, ctx=32768, swa_full=True).kv_bytes == kv_cache(shaped("llama"), ctx=32768).kv_bytes


def test_latent_attention_keeps_one_row_without_values() -> None:
    keys = {"attention.key_length": 576, "attention.value_length": 512, "attention.head_count_kv": 1}
    keys |= {"attention.key_length_mla": 192, "attention.value_length_mla": 128}
    kv = kv_cache(made_up("deepseek2", dict(SHAPE) | keys), ctx=8192, parallel=1)
    assert kv.kv_bytes == 12 * 576 * 2 * 8192
    assert kv.caches[0].v_bytes == 0


def test_a_hybrid_keeps_rows_where_it_attends_and_state_elsewhere() -> None:
    kv = kv_cache(
        shaped("qwen35", ssm__conv_kernel=4, ssm__inner_size=1024, ssm__state_size=128, ssm__group_count=8),
        ctx=8192,
        parallel=2,
    )
    assert kv.kv_bytes == 3 * 2 * 2 * 64 * 2 * 8192
    assert kv.recurrent_bytes == 9 * 2 * 4 * (3 * (1024 + 2 * 8 * 128) + 128 * 1024)
    assert [layer.layer for layer in kv.layers if layer.kv_bytes] == [3, 7, 11]


def test_state_does_not_grow_with_the_context_but_with_slots_and_rollback() -> None:
    keys = {"ssm.conv_kernel": 4, "ssm.inner_size": 1024, "ssm.state_size": 64}
    meta = made_up("mamba", dict(SHAPE) | keys)
    one = kv_cache(meta, ctx=1024, parallel=1).recurrent_bytes
    assert kv_cache(meta, ctx=32768, parallel=1).recurrent_bytes == one
    assert kv_cache(meta, ctx=1024, parallel=4).recurrent_bytes == 4 * one
    assert kv_cache(meta, ctx=1024, parallel=1, rollback=2).recurrent_bytes == 3 * one


def test_loops_multiply_layers() -> None:
    once, twice = (kv_cache(shaped("nanbeige", num_loops=n), ctx=4096) for n in (1, 2))
    assert twice.kv_bytes == 2 * once.kv_bytes
    assert len(twice.layers) == 24


def test_without_flash_attention_values_are_padded_to_the_widest_layer() -> None:
    meta = shaped("openelm", attention__head_count_kv=[1, 2] * 6)
    on, off = (kv_cache(meta, ctx=4096, flash_attn=flag) for flag in ("on", "off"))
    assert on.caches[0].k_bytes == off.caches[0].k_bytes
    assert off.caches[0].v_bytes == on.caches[0].v_bytes * 24 // 18


def test_grok_runs_without_flash_attention_whatever_is_asked_for() -> None:
    kv = kv_cache(shaped("grok", attention__head_count_kv=[1, 2] * 6), ctx=4096, flash_attn="on")
    assert not kv.settings.flash
    assert kv.caches[0].v_bytes > kv.caches[0].k_bytes


def test_encoders_keep_nothing() -> None:
    kv = kv_cache(shaped("bert", attention__causal=False), ctx=512)
    assert (kv.total_bytes, kv.caches, kv.cells) == (0, (), 512)


def test_an_unknown_architecture_is_estimated_high_and_flagged() -> None:
    known = kv_cache(shaped("gemma3", attention__sliding_window=1024), ctx=32768)
    unknown = kv_cache(shaped("frobnicate", attention__sliding_window=1024), ctx=32768)
    assert unknown.approximate
    assert unknown.kv_bytes > known.kv_bytes
    assert "'frobnicate' is unknown" in unknown.doubts[0]


def test_an_unknown_hybrid_is_charged_for_state_as_well() -> None:
    kv = kv_cache(shaped("frobnicate", ssm__conv_kernel=4, ssm__inner_size=1024, ssm__state_size=64), ctx=1024)
    assert kv.kv_bytes
    assert kv.recurrent_bytes


def test_deepseek4_is_an_estimate() -> None:
    ratios = [0, 0, *[4, 128] * 5]
    keys = {"attention.compress_ratios": ratios, "attention.sliding_window": 128, "attention.indexer.key_length": 64}
    keys |= {"attention.key_length": 128, "attention.value_length": 128, "attention.head_count_kv": 1}
    kv = kv_cache(made_up("deepseek4", dict(SHAPE) | keys), ctx=8192, parallel=1)
    assert kv.approximate
    # read off the engine for this shape: rows of 128 numbers, 768 window cells, 2048 and 256 compressed ones
    assert [(c.kind, c.cells, len(c.layers)) for c in kv.caches] == [
        (CacheKind.SWA, 768, 12),
        (CacheKind.CSA, 2048, 5),
        (CacheKind.HCA, 256, 5),
        (CacheKind.INDEXER, 2048, 5),
    ]


@pytest.mark.parametrize(
    ("keys", "doubt"),
    [
        pytest.param({"attention.head_count_kv": [2, 2, 2]}, "has 3 entries for 12 layers", id="short array"),
        pytest.param({"block_count": 0}, "block_count is 0", id="no layers"),
        pytest.param({"block_count": 100_000}, "aborts unless it is 1 to 512", id="far too many layers"),
        pytest.param({"embedding_length": [512, 512]}, "is an array", id="array for a number"),
        pytest.param({"attention.head_count_kv": "two"}, "is no whole number", id="text for a number"),
        pytest.param({"attention.head_count_kv": -2}, "is no whole number", id="negative number"),
    ],
)
def test_odd_headers_are_flagged_and_never_raise(keys: Mapping[str, object], doubt: str) -> None:
    kv = kv_cache(made_up("llama", dict(SHAPE) | dict(keys)), ctx=4096)
    assert kv.approximate
    assert any(doubt in text for text in kv.doubts)


def test_a_short_array_is_continued_with_its_largest_entry() -> None:
    short = kv_cache(shaped("llama", attention__head_count_kv=[1, 4, 2]), ctx=4096)
    assert short.kv_bytes == 2 * (1 + 4 + 2 + 9 * 4) * 64 * 4096 * 2


@pytest.mark.parametrize(
    ("arch", "flags", "text"),
    [
        pytest.param(
            "llama",
            {"type_v": "q8_0", "flash_attn": "off"},
            "a V cache of type q8_0 needs flash attention, which is off here; the engine stops with "
            '"quantized V cache requires flash_attn to be enabled"; leave flash attention on, or set cache_type_v '
            "to f16",
            id="quantised V without flash attention",
        ),
        pytest.param(
            "odd",
            {"type_k": "q8_0"},
            "a K cache of type q8_0 packs 32 numbers into a block, which does not divide this model's heads of 48; "
            "set cache_type_k to f16",
            id="heads that are no multiple of a block",
        ),
        pytest.param(
            "latent",
            {"type_k": "q8_0"},
            'the engine stops with "model does not support different K (q8_0) and V (f16) cache types": this model '
            "keeps one compressed row for both; set cache_type_k and cache_type_v to the same type, e.g. both to q8_0",
            id="different types for one compressed row",
        ),
    ],
)
def test_settings_the_engine_refuses_are_refused_with_advice(arch: str, flags: Mapping[str, str], text: str) -> None:
    keys = {
        "llama": dict(SHAPE),
        "odd": dict(SHAPE) | {"attention.key_length": 48},
        "latent": dict(SHAPE) | {"attention.key_length_mla": 64, "attention.value_length_mla": 64},
    }[arch]
    meta = made_up("deepseek2" if arch == "latent" else "llama", keys)
    with pytest.raises(UnservableSettings) as refused:
        kv_cache(meta, ctx=4096, **flags)  # type: ignore[arg-type]  # flags of one type
    assert str(refused.value) == text


def test_a_quantised_k_alone_needs_no_flash_attention() -> None:
    assert kv_cache(shaped("llama"), ctx=4096, type_k="q8_0", flash_attn="off").kv_bytes


def test_an_unknown_cache_type_names_the_known_ones() -> None:
    with pytest.raises(UnknownCacheType) as refused:
        kv_cache(shaped("llama"), ctx=4096, type_k="q6_k")
    assert str(refused.value) == (
        "cache type 'q6_k' is not one the engine knows, so nothing was loaded; use one of f32, f16, bf16, q8_0, q4_0, "
        "q4_1, iq4_nl, q5_0, q5_1"
    )


def test_cache_types_are_found_in_any_spelling() -> None:
    assert cache_type(" Q8_0 ") is CacheType.Q8_0


def test_known_architectures_are_exact_and_others_not() -> None:
    assert all(is_known(arch) for arch in ("llama", "gemma4", "qwen35moe", "rwkv7", "minimax-m3", "bert", "glm-dsa"))
    assert not any(is_known(arch) for arch in ("deepseek4", "frobnicate", "", "clip"))


def test_explain_takes_the_figure_apart() -> None:
    meta = shaped("gemma3", attention__sliding_window=1024)
    assert kv_cache(meta, ctx=32768, parallel=1, type_v="q8_0").explain() == snapshot(
        """\
gemma3: 30.24 MiB for 32,768 cells (1 slot)
  full-length layers: layers 5, 11, 32,768 cells, K f16 16.00 MiB, V q8_0 8.50 MiB
  sliding-window layers: layers 0-4, 6-10, 1,536 cells, K f16 3.75 MiB, V q8_0 1.99 MiB
  documented scalar formula: 144.00 MiB\
"""
    )


def test_explain_says_what_is_uncertain() -> None:
    keys = {"ssm.conv_kernel": 4, "ssm.inner_size": 1024, "ssm.state_size": 64}
    assert kv_cache(made_up("frobnicate", dict(SHAPE) | keys), ctx=1024).explain() == snapshot(
        """\
frobnicate: 18.56 MiB for 1,024 cells (4 slots, one pool for all)
  cache: layers 0-11, 1,024 cells, K f16 3.00 MiB, V f16 3.00 MiB
  recurrent state: layers 0-11, f32, 12.56 MiB
  documented scalar formula: 6.00 MiB
  uncertain: architecture 'frobnicate' is unknown: taken as a full cache on every layer\
"""
    )


ARCHITECTURES = st.sampled_from(["llama", "gemma3", "gemma2", "llama4", "qwen35", "jamba", "deepseek32", "mimo2", "x"])
KEYS = st.fixed_dictionaries(
    {
        "block_count": st.integers(1, 40),
        "attention.head_count": st.integers(1, 16),
        "attention.key_length": st.sampled_from([32, 64, 128, 256]),
        "attention.value_length": st.sampled_from([32, 64, 128]),
    },
    optional={
        "attention.sliding_window": st.integers(0, 8192),
        "attention.sliding_window_pattern": st.integers(2, 8),
        "nextn_predict_layers": st.integers(0, 3),
        "ssm.inner_size": st.integers(0, 4096),
        "ssm.state_size": st.integers(0, 256),
    },
)


@settings(max_examples=60)
@given(ARCHITECTURES, KEYS, st.integers(1, 200_000), st.integers(1, 50_000), st.integers(1, 16), st.booleans())
def test_more_context_never_costs_less(
    arch: str, keys: Mapping[str, object], ctx: int, more: int, parallel: int, unified: bool
) -> None:
    meta = made_up(arch, dict(SHAPE) | dict(keys))
    small, large = (kv_cache(meta, ctx=n, parallel=parallel, unified=unified) for n in (ctx, ctx + more))
    assert small.kv_bytes <= large.kv_bytes
    assert small.recurrent_bytes == large.recurrent_bytes


@settings(max_examples=60)
@given(ARCHITECTURES, KEYS, st.integers(1, 100_000), st.integers(1, 8))
def test_smaller_types_never_cost_more(arch: str, keys: Mapping[str, object], ctx: int, parallel: int) -> None:
    meta = made_up(arch, dict(SHAPE) | dict(keys))
    costs = [
        kv_cache(meta, ctx=ctx, parallel=parallel, type_k=kind, type_v=kind).kv_bytes
        for kind in ("q4_0", "q8_0", "f16", "f32")
    ]
    assert costs == sorted(costs)


@settings(max_examples=60)
@given(ARCHITECTURES, KEYS, st.integers(1, 100_000), st.integers(1, 8), st.booleans())
def test_the_breakdown_by_layer_adds_up(
    arch: str, keys: Mapping[str, object], ctx: int, parallel: int, unified: bool
) -> None:
    kv = kv_cache(made_up(arch, dict(SHAPE) | dict(keys)), ctx=ctx, parallel=parallel, unified=unified)
    assert sum(layer.kv_bytes for layer in kv.layers) == kv.kv_bytes
    assert sum(layer.state_bytes for layer in kv.layers) == kv.recurrent_bytes
    assert [layer.layer for layer in kv.layers] == list(range(len(kv.layers)))

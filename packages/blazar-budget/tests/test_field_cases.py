"""Cases that users of other servers ran into, by their number in the collection of field cases."""

import pytest

from blazar_budget import (
    CacheKind,
    FitWithWarning,
    Launch,
    Memory,
    Pool,
    Refuse,
    estimate_kv_vram_charge,
    footprint,
    kv_cache,
    unified_ctx_verdict,
)
from blazar_budget.testing import made_up, plain_decoder

MIB = 1 << 20
GIB = 1 << 30


def test_bc35_a_model_that_could_fit_is_told_from_one_that_never_could() -> None:
    """24 GiB card, 14 GiB busy with an idle model: a 12 GiB newcomer fits once that has gone, a 30 GiB one never."""
    card = Memory(64 * GIB, (Pool("CUDA0", 24 * GIB),))
    beside = card.minus({"CUDA0": 14 * GIB})
    newcomer = plain_decoder(layers=80, heads_kv=8)
    launch = Launch(8192, 4, unified=True)
    needed = footprint(newcomer, launch, card).needed_bytes
    assert 10 * GIB < needed < 14 * GIB
    assert unified_ctx_verdict(newcomer, launch, card).serves
    assert not unified_ctx_verdict(newcomer, launch, beside).serves
    hopeless = unified_ctx_verdict(plain_decoder(layers=230), launch, card)
    assert isinstance(hopeless, Refuse)
    assert all(f"({number})" in hopeless.text for number in (1, 2, 3, 4))


LFM2 = {
    "block_count": 16,
    "context_length": 128_000,
    "embedding_length": 2048,
    "feed_forward_length": 8192,
    "attention.head_count": 32,
    "attention.head_count_kv": [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0],
    "shortconv.l_cache": 3,
}


def test_bc51_heads_that_start_with_zero_are_summed_not_indexed() -> None:
    meta = made_up("lfm2", LFM2)
    kv = kv_cache(meta, ctx=32_768, parallel=1)
    assert kv.kv_bytes == estimate_kv_vram_charge(meta, 32_768) == 384 * MIB
    assert kv_cache(meta, ctx=65_536, parallel=1).kv_bytes == 768 * MIB
    assert not kv.approximate


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({"attention.head_count": [32] * 16, "feed_forward_length": [8192] * 16}, id="arrays everywhere"),
        pytest.param({"attention.head_count_kv": [0, 0, 8]}, id="an array that is too short"),
        pytest.param({"attention.head_count_kv": []}, id="an empty array"),
    ],
)
def test_bc51_arrays_of_any_length_are_survived(keys: dict[str, object]) -> None:
    kv = kv_cache(made_up("lfm2", LFM2 | keys), ctx=32_768, parallel=1)
    assert kv.kv_bytes >= 0
    assert kv.recurrent_bytes >= 0


THIRTY_LAYERS = {
    "block_count": 30,
    "context_length": 131_072,
    "embedding_length": 2560,
    "feed_forward_length": 10_240,
    "attention.head_count": 8,
    "attention.head_count_kv": 4,
    "attention.key_length": 256,
    "attention.value_length": 256,
    "attention.sliding_window": 1024,
}
ROW = 2 * 4 * 256 * 2


@pytest.mark.parametrize(
    ("arch", "pattern"),
    [
        pytest.param("gemma4", [layer % 6 != 5 for layer in range(30)], id="as an array"),
        pytest.param("gemma3", 6, id="as a period"),
    ],
)
def test_bc52_sliding_layers_are_charged_by_their_window(arch: str, pattern: object) -> None:
    meta = made_up(arch, THIRTY_LAYERS | {"attention.sliding_window_pattern": pattern})
    kv = kv_cache(meta, ctx=32_768, parallel=1)
    assert kv.kv_bytes == ROW * (5 * 32_768 + 25 * 1536)
    assert kv.kv_bytes < estimate_kv_vram_charge(meta, 32_768) / 4
    shared = kv_cache(meta, ctx=32_768, parallel=4, unified=True)
    assert shared.kv_bytes == ROW * (5 * 32_768 + 25 * 4608)
    assert kv_cache(meta, ctx=32_768, parallel=1, swa_full=True).kv_bytes == ROW * 30 * 32_768


def test_bc52_latent_attention_is_charged_by_its_rank() -> None:
    keys = {"block_count": 27, "embedding_length": 2048, "attention.head_count": 16, "attention.head_count_kv": 1}
    keys |= {"attention.key_length": 576, "attention.value_length": 512, "context_length": 163_840}
    latent = keys | {"attention.key_length_mla": 192, "attention.value_length_mla": 128}
    assert kv_cache(made_up("deepseek2", latent), ctx=4096).kv_bytes == 27 * 576 * 2 * 4096
    old = keys | {"attention.head_count_kv": 16, "attention.key_length": 192, "attention.value_length": 128}
    assert kv_cache(made_up("deepseek2", old), ctx=4096).kv_bytes == 27 * 16 * (192 + 128) * 2 * 4096


def test_bc52_a_hybrid_attends_in_every_fourth_layer() -> None:
    keys = {"block_count": 48, "embedding_length": 2048, "attention.head_count": 16, "attention.head_count_kv": 2}
    keys |= {"attention.key_length": 256, "attention.value_length": 256, "full_attention_interval": 4}
    keys |= {"ssm.conv_kernel": 4, "ssm.inner_size": 4096, "ssm.state_size": 128, "ssm.group_count": 16}
    kv = kv_cache(made_up("qwen3next", keys | {"context_length": 262_144}), ctx=32_768, parallel=1)
    assert kv.kv_bytes == 12 * 2 * 512 * 2 * 32_768
    assert kv.recurrent_bytes == 36 * 4 * (3 * (4096 + 2 * 16 * 128) + 128 * 4096)


def test_bc52_loops_keep_rows_for_each_pass() -> None:
    keys = {"block_count": 22, "embedding_length": 2048, "attention.head_count": 16, "attention.head_count_kv": 4}
    kv = kv_cache(made_up("nanbeige", keys | {"num_loops": 2, "context_length": 4096}), ctx=4096)
    assert len([layer for layer in kv.layers if layer.kinds == (CacheKind.KV,)]) == 44


def test_bc52_keys_and_values_of_different_length() -> None:
    keys = THIRTY_LAYERS | {"attention.value_length": 128}
    kv = kv_cache(made_up("llama", keys), ctx=8192, parallel=1)
    assert kv.caches[0].k_bytes == 2 * kv.caches[0].v_bytes == 30 * 4 * 256 * 2 * 8192


def test_bc52_an_unknown_layout_warns_rather_than_refuses() -> None:
    meta = plain_decoder(arch="brand-new")
    verdict = unified_ctx_verdict(meta, Launch(131_072, 4, unified=True), Memory(16 * GIB))
    assert isinstance(verdict, FitWithWarning)

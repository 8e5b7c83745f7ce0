"""The documented arithmetic, which others rely on as it stands."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_budget import (
    OVERHEAD_BYTES,
    UnknownCacheType,
    estimate_kv_vram_charge,
    kv_cache,
    scale_kv_by_cache_type,
    weights_floor,
)
from blazar_budget.testing import made_up, plain_decoder

MIB = 1 << 20


def test_the_scalar_charge_is_exact_for_a_plain_model() -> None:
    meta = plain_decoder()
    assert estimate_kv_vram_charge(meta, 8192) == 2 * 32 * 8 * 128 * 8192 * 2
    assert estimate_kv_vram_charge(meta, 8192) == kv_cache(meta, ctx=8192).kv_bytes


def test_heads_that_differ_by_layer_are_summed() -> None:
    keys = {"block_count": 16, "embedding_length": 2048, "attention.head_count": 32}
    keys |= {"attention.head_count_kv": [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]}  # type: ignore[dict-item]
    assert estimate_kv_vram_charge(made_up("lfm2", keys), 32768) == 384 * MIB


@pytest.mark.parametrize(
    ("loops", "times"), [(None, 1), (1, 1), (2, 2), (8, 8), (9, 8), (0, 1)], ids=lambda value: f"{value}"
)
def test_loops_multiply_layers_between_1_and_8(loops: int | None, times: int) -> None:
    keys: dict[str, object] = {"block_count": 22, "embedding_length": 512, "attention.head_count": 8}
    plain = estimate_kv_vram_charge(made_up("nanbeige", keys), 4096)
    if loops is not None:
        keys["num_loops"] = loops
    assert estimate_kv_vram_charge(made_up("nanbeige", keys), 4096) == times * plain


def test_no_context_costs_nothing() -> None:
    assert estimate_kv_vram_charge(plain_decoder(), 0) == 0


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("f16", 1000), ("q8_0", 500), ("q4_0", 250), ("bf16", 1000), ("f32", 1000), ("q5_1", 1000), ("iq4_nl", 1000)],
)
def test_cache_types_are_scaled_by_the_documented_short_cuts(kind: str, expected: int) -> None:
    assert scale_kv_by_cache_type(1000, kind) == expected


def test_an_unknown_cache_type_is_an_error() -> None:
    with pytest.raises(UnknownCacheType):
        scale_kv_by_cache_type(1000, "q2_k")


def test_overhead_and_floor_are_the_documented_ones() -> None:
    assert OVERHEAD_BYTES == 700 * MIB
    assert weights_floor(17 * MIB) == (17 + 64) * MIB * 20 // 17


@given(st.integers(0, 1 << 50))
def test_at_the_floor_the_weights_leave_fifteen_percent(weights: int) -> None:
    floor = weights_floor(weights)
    assert (weights + 64 * MIB) * 20 <= (floor + 1) * 17
    assert (weights + 64 * MIB) * 20 >= floor * 17

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_snapshot import snapshot

from blazar_budget import (
    Answer,
    Fit,
    FitWithWarning,
    Footprint,
    Launch,
    Memory,
    Offload,
    Pool,
    Refuse,
    Room,
    default_context,
    footprint,
    max_ctx_that_fits,
    max_gpu_layers_that_fit,
    unified_ctx_verdict,
    verdict_facts,
    weights_floor,
)
from blazar_budget.judgement import judge
from blazar_budget.testing import lay_out, made_up, plain_decoder
from blazar_gguf import GgufMeta

MIB = 1 << 20
GIB = 1 << 30

MODEL = plain_decoder()
"""Eight billion parameters: 4.2 GiB of weights, 128 KiB of KV per token."""
SMALL = {a: plain_decoder(arch=a, layers=6, keys={"attention.sliding_window": 1024}) for a in ("llama", "gemma3", "x")}
"""Models quick to reckon with: known, sliding, unknown."""
SLOTS = Launch(32768, 4, unified=True)


def gpus(*gib: float, ram: float = 64) -> Memory:
    return Memory(int(ram * GIB), tuple(Pool(f"CUDA{i}", int(size * GIB)) for i, size in enumerate(gib)))


def needs_of(launch: Launch, memory: Memory, meta: GgufMeta = MODEL) -> Footprint:
    return footprint(meta, launch, memory)


@pytest.mark.parametrize(
    ("memory", "answer"),
    [
        pytest.param(gpus(24), Answer.FIT, id="ample"),
        pytest.param(gpus(9.5), Answer.FIT_WITH_WARNING, id="over 85 %"),
        pytest.param(gpus(8), Answer.REFUSE, id="too small"),
        pytest.param(gpus(8, 8), Answer.FIT, id="two devices together"),
        pytest.param(Memory(64 * GIB), Answer.FIT, id="no accelerator: main memory is the pool"),
        pytest.param(Memory(8 * GIB), Answer.REFUSE, id="no accelerator, too little memory"),
        pytest.param(gpus(24, ram=0.1), Answer.REFUSE, id="the host cannot hold its part"),
    ],
)
def test_the_answer_depends_on_the_memory_there_is(memory: Memory, answer: Answer) -> None:
    assert unified_ctx_verdict(MODEL, SLOTS, memory).answer is answer


def test_the_charge_is_weights_cache_and_overhead() -> None:
    needs = needs_of(SLOTS, gpus(24))
    table = 4096 * 128_256 * 144 // 256
    assert needs.weights_bytes == MODEL.tensor_bytes - table
    assert needs.needed_bytes == needs.weights_bytes + 4 * GIB + 700 * MIB
    assert needs.host.weights_bytes == table


@pytest.mark.parametrize(
    ("slack", "room"),
    [pytest.param(0, Room.TIGHT, id="exactly"), pytest.param(-1, Room.OVER, id="a byte short")],
)
def test_refused_only_beyond_the_last_byte(slack: int, room: Room) -> None:
    needed = needs_of(SLOTS, gpus(24)).needed_bytes
    memory = Memory(64 * GIB, (Pool("CUDA0", needed + slack),))
    assert judge(needs_of(SLOTS, memory), memory).room is room


@pytest.mark.parametrize(
    ("slack", "room"),
    [pytest.param(0, Room.AMPLE, id="85 %"), pytest.param(-1, Room.TIGHT, id="a byte more than 85 %")],
)
def test_the_warning_zone_begins_above_85_percent(slack: int, room: Room) -> None:
    needed = needs_of(SLOTS, gpus(24)).needed_bytes
    memory = Memory(64 * GIB, (Pool("CUDA0", -(-needed * 20 // 17) + slack),))
    assert judge(needs_of(SLOTS, memory), memory).room is room


def test_below_the_floor_a_model_is_never_a_plain_fit() -> None:
    weights = needs_of(SLOTS, gpus(24)).weights_bytes
    memory = Memory(64 * GIB, (Pool("CUDA0", weights_floor(weights) - 1),))
    verdict = unified_ctx_verdict(MODEL, SLOTS.with_ctx(256), memory)
    assert isinstance(verdict, FitWithWarning)
    assert "the weights alone (3.9 GiB) leave less than 15 % free" in verdict.warnings[0]


def test_a_compute_buffer_beyond_the_flat_charge_counts() -> None:
    needs = needs_of(Launch(65536, 1, flash_attn="off"), gpus(80))
    (device, _) = needs.demands
    assert device.overhead_bytes == device.compute.high > 700 * MIB


def test_explicit_layers_are_judged_by_what_they_need() -> None:
    launch = Launch(32768, 4, unified=True, offload=Offload(gpu_layers=16))
    assert isinstance(unified_ctx_verdict(MODEL, launch, gpus(8)), Fit)
    assert isinstance(unified_ctx_verdict(MODEL, launch, gpus(8, ram=2)), Refuse)


def test_no_layers_on_devices_means_main_memory_is_the_pool() -> None:
    launch = Launch(32768, 4, unified=True, offload=Offload(gpu_layers=0))
    needs = needs_of(launch, gpus(2, ram=64))
    assert needs.pool == (needs.host,)
    assert needs.pool_bytes == 64 * GIB


def test_unified_memory_holds_both_parts() -> None:
    memory = Memory(10 * GIB, (Pool("MTL0", 9 * GIB + 512 * MIB, unified=True),))
    assert unified_ctx_verdict(MODEL, SLOTS.with_ctx(30000), memory).serves
    tight = Memory(int(8.5 * GIB), (Pool("MTL0", 9 * GIB + 512 * MIB, unified=True),))
    assert not unified_ctx_verdict(MODEL, SLOTS.with_ctx(30000), tight).serves


def test_projector_and_prompt_cache_are_charged_where_they_live() -> None:
    launch = Launch(4096, 4, unified=True, extra_device_bytes=GIB, extra_host_bytes=8 * GIB)
    device, host = needs_of(launch, gpus(24)).demands
    assert (device.extra_bytes, host.extra_bytes) == (GIB, 8 * GIB)
    (alone,) = needs_of(launch, Memory(64 * GIB)).demands
    assert alone.extra_bytes == 9 * GIB


def test_the_refusal_names_four_levers_with_values_that_fit() -> None:
    verdict = unified_ctx_verdict(MODEL, SLOTS, gpus(8))
    assert isinstance(verdict, Refuse)
    assert verdict.text == snapshot(
        "it needs 8.6 GiB, and CUDA0 has 8.0 GiB; nothing was loaded. It is made of weights 3.9 GiB, KV "
        "cache 4.0 GiB (32,768 tokens, 4 slots, f16), working memory 700 MiB. Any one of these helps: (1) "
        'ctx: 27648 is the largest that fits; (2) cache_type: set cache_type_k and cache_type_v to "q8_0"; '
        "(3) gpu-layers: 30 of 33 fit, the rest runs on the processor and is slower; (4) model size: "
        "weights of at most 3.3 GiB, 631 MiB less, for instance a stronger quantisation."
    )


def test_levers_that_do_not_help_say_so() -> None:
    verdict = unified_ctx_verdict(MODEL, SLOTS.with_ctx(131_072), Memory(4 * GIB))
    assert isinstance(verdict, Refuse)
    assert verdict.text == snapshot(
        "it needs 20.9 GiB, and this machine's memory has 4.0 GiB; nothing was loaded. It is made of "
        "weights 4.2 GiB, KV cache 16.0 GiB (131,072 tokens, 4 slots, f16), working memory 700 MiB. Any "
        "one of these helps: (1) ctx: no context is small enough; (2) cache_type: no type is small enough; "
        "(3) gpu-layers: there is no accelerator to share the load with; (4) model size: beside that "
        "context there is no room for any model."
    )


def test_a_host_that_is_too_small_is_named() -> None:
    verdict = unified_ctx_verdict(MODEL, SLOTS, gpus(24, ram=0.25))
    assert isinstance(verdict, Refuse)
    assert verdict.text.startswith(
        "the part that stays on the host needs 330 MiB, 74 MiB more than there is; nothing was loaded."
    )
    assert "weights of at most 3.9 GiB, 74 MiB less" in verdict.text


def test_the_texts_name_state_types_and_all_devices() -> None:
    keys = {"block_count": 12, "embedding_length": 4096, "context_length": 131_072, "feed_forward_length": 12_288}
    keys |= {"attention.head_count": 32, "attention.head_count_kv": 8, "ssm.conv_kernel": 4}
    keys |= {"ssm.inner_size": 8192, "ssm.state_size": 128, "ssm.group_count": 8}
    meta = made_up("falcon-h1", keys, lay_out([("token_embd.weight", (4096, 200_000), "F16")]))
    launch = Launch(131_072, 8, unified=True, type_k="q8_0", extra_device_bytes=GIB)
    verdict = unified_ctx_verdict(meta, launch, gpus(2, 3))
    assert isinstance(verdict, Refuse)
    assert verdict.text == snapshot(
        "it needs 8.9 GiB, and CUDA0 and CUDA1 together have 5.0 GiB; nothing was loaded. It is made of "
        "weights 1.5 GiB, KV cache 4.6 GiB (131,072 tokens, 8 slots, K q8_0, V f16), recurrent state 395 "
        "MiB, projector and adapters 1.0 GiB, working memory 1.4 GiB. Any one of these helps: (1) ctx: "
        "20480 is the largest that fits; (2) cache_type: no type is small enough; (3) gpu-layers: 3 of 13 "
        "fit, the rest runs on the processor and is slower; (4) model size: beside that context there is "
        "no room for any model."
    )


def test_a_guess_is_warned_about_and_never_refused() -> None:
    meta = plain_decoder(arch="frobnicate")
    assert isinstance(unified_ctx_verdict(meta, SLOTS, gpus(24)), FitWithWarning)
    verdict = unified_ctx_verdict(meta, SLOTS.with_ctx(131_072), gpus(12))
    assert isinstance(verdict, FitWithWarning)
    assert verdict.warnings == snapshot(
        (
            "the memory figure is an estimate on the high side: architecture 'frobnicate' is unknown: taken as a full "
            "cache on every layer",
            "by that estimate it needs 20.6 GiB of 12.0 GiB; it is started anyway and the engine fits what it can",
        )
    )


def test_weights_that_are_too_large_are_no_guess() -> None:
    assert isinstance(unified_ctx_verdict(plain_decoder(arch="frobnicate"), SLOTS, gpus(4)), Refuse)


def test_an_ample_guess_keeps_its_layers() -> None:
    verdict = unified_ctx_verdict(plain_decoder(arch="frobnicate"), SLOTS, gpus(80))
    assert isinstance(verdict, FitWithWarning)
    assert not verdict.fitter_owns_layers


def test_settings_the_engine_refuses_are_refused_before_any_arithmetic() -> None:
    verdict = unified_ctx_verdict(MODEL, Launch(4096, type_v="q8_0", flash_attn="off"), gpus(80))
    assert isinstance(verdict, Refuse)
    assert (verdict.footprint, verdict.levers) == (None, None)
    assert "needs flash attention" in verdict.text


def test_tight_models_leave_layers_to_the_engine() -> None:
    verdict = unified_ctx_verdict(MODEL, SLOTS, gpus(9.5))
    assert isinstance(verdict, FitWithWarning)
    assert verdict.fitter_owns_layers
    assert verdict.warnings == snapshot(
        ("tight: 8.6 GiB of 9.5 GiB of CUDA0 (91 %); the engine decides how many layers go there",)
    )


# -- the largest that fits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [gpus(6), gpus(8), gpus(12), Memory(10 * GIB), gpus(3, 3)], ids=str)
def test_the_largest_context_fits_and_the_next_does_not(memory: Memory) -> None:
    ctx = max_ctx_that_fits(MODEL, SLOTS, memory)
    assert ctx % 256 == 0
    assert unified_ctx_verdict(MODEL, SLOTS.with_ctx(ctx), memory).serves
    assert not unified_ctx_verdict(MODEL, SLOTS.with_ctx(ctx + 256), memory).serves


def test_the_training_length_bounds_the_search() -> None:
    assert max_ctx_that_fits(MODEL, SLOTS, gpus(80)) == 131_072
    assert max_ctx_that_fits(MODEL, SLOTS, gpus(80), most=10_000) == 9984


def test_no_context_fits_where_the_weights_do_not() -> None:
    assert max_ctx_that_fits(MODEL, SLOTS, gpus(4)) == 0


def test_the_largest_number_of_layers_fits_and_one_more_does_not() -> None:
    layers = max_gpu_layers_that_fit(MODEL, SLOTS, gpus(6))
    assert layers is not None
    assert 0 < layers < 33
    assert unified_ctx_verdict(MODEL, SLOTS.with_gpu_layers(layers), gpus(6)).serves
    assert not unified_ctx_verdict(MODEL, SLOTS.with_gpu_layers(layers + 1), gpus(6)).serves


@pytest.mark.parametrize(
    ("memory", "layers"),
    [
        pytest.param(gpus(80), 33, id="all"),
        pytest.param(Memory(64 * GIB), None, id="no accelerator"),
        pytest.param(gpus(2, ram=2), None, id="neither side has room"),
    ],
)
def test_layers_at_the_ends(memory: Memory, layers: int | None) -> None:
    assert max_gpu_layers_that_fit(MODEL, SLOTS, memory) == layers


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.floats(0.5, 8), max_size=2),
    st.floats(1, 16),
    st.integers(1, 8),
    st.sampled_from(["f16", "q8_0", "q4_0"]),
    st.sampled_from(["llama", "gemma3"]),
)
def test_what_is_said_to_fit_is_never_over_budget(
    pools: Sequence[float], ram: float, parallel: int, kind: str, arch: str
) -> None:
    meta = SMALL[arch]
    memory = gpus(*pools, ram=ram)
    launch = Launch(0, parallel, unified=True, type_k=kind, type_v=kind)
    ctx = max_ctx_that_fits(meta, launch, memory)
    if ctx:
        needs = footprint(meta, launch.with_ctx(ctx), memory)
        assert needs.needed_bytes <= needs.pool_bytes
        assert needs.host in needs.pool or needs.host.needed_bytes <= memory.ram_bytes
    layers = max_gpu_layers_that_fit(meta, launch.with_ctx(8192), memory)
    if layers is not None:
        needs = footprint(meta, launch.with_ctx(8192).with_gpu_layers(layers), memory)
        assert needs.needed_bytes <= needs.pool_bytes
        assert needs.host.needed_bytes <= memory.ram_bytes


@settings(max_examples=30, deadline=None)
@given(st.integers(256, 60_000), st.integers(0, 60_000), st.sampled_from(["llama", "gemma3", "x"]), st.integers(0, 7))
def test_more_context_never_needs_less(ctx: int, more: int, arch: str, layers: int) -> None:
    small, large = (
        footprint(SMALL[arch], Launch(n, 4, unified=True, offload=Offload(gpu_layers=layers)), gpus(24))
        for n in (ctx, ctx + more)
    )
    for before, after in zip(small.demands, large.demands, strict=True):
        assert before.needed_bytes <= after.needed_bytes


# -- the default context ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("memory", "ctx", "room", "warns"),
    [
        pytest.param(gpus(80), 65_536, Room.AMPLE, False, id="at most 65536"),
        pytest.param(gpus(8), 17_408, Room.AMPLE, False, id="the largest plain fit"),
        pytest.param(gpus(6), 3072, Room.AMPLE, True, id="a small one is warned about"),
        pytest.param(gpus(5), 3072, Room.TIGHT, True, id="tight: what can be served"),
        pytest.param(gpus(4), 1024, Room.OVER, True, id="nothing fits"),
    ],
)
def test_the_default_context(memory: Memory, ctx: int, room: Room, warns: bool) -> None:
    choice = default_context(MODEL, SLOTS, memory)
    assert (choice.ctx, choice.room, bool(choice.warning)) == (ctx, room, warns)


def test_the_default_never_exceeds_the_training_length() -> None:
    assert default_context(plain_decoder(ctx=4096), SLOTS, gpus(80)).ctx == 4096
    assert not default_context(plain_decoder(ctx=4096), SLOTS, gpus(80)).warning
    assert default_context(plain_decoder(ctx=5000), SLOTS, gpus(80)).ctx == 4096
    assert default_context(plain_decoder(ctx=512), SLOTS, gpus(80)).ctx == 512


def test_an_unknown_training_length_is_bounded_as_well() -> None:
    assert default_context(plain_decoder(ctx=0), SLOTS, gpus(80)).ctx == 65_536


# -- plain values ----------------------------------------------------------------------------------------------


def test_facts_of_a_refusal() -> None:
    facts = verdict_facts(unified_ctx_verdict(MODEL, SLOTS, gpus(8)))
    assert facts["verdict"] == "refuse"
    assert facts["would_fit"] == {
        "ctx": 27648,
        "cache_type": "q8_0",
        "gpu_layers": 30,
        "weights_bytes": 3_560_964_096,
        "smaller_by_bytes": 661_471_232,
    }
    assert facts["text"]


def test_facts_add_up() -> None:
    facts = verdict_facts(unified_ctx_verdict(MODEL, SLOTS, gpus(9.5)))
    assert facts["verdict"] == "fit-with-warning"
    assert facts["weights_bytes"] == MODEL.tensor_bytes
    assert facts["kv_bytes"] == 4 * GIB
    assert facts["recurrent_bytes"] == 0
    assert facts["approximate"] is False
    assert facts["warnings"]
    devices = facts["devices"]
    assert isinstance(devices, list)
    assert [device["device"] for device in devices if isinstance(device, dict)] == ["CUDA0", "host"]


def test_facts_of_settings_the_engine_refuses() -> None:
    facts = verdict_facts(unified_ctx_verdict(MODEL, Launch(4096, type_v="q8_0", flash_attn="off"), gpus(80)))
    assert facts["would_fit"] is None
    assert "weights_bytes" not in facts

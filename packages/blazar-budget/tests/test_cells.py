import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_budget import cell_layout


@pytest.mark.parametrize(
    ("ctx", "parallel", "unified", "seq", "streams", "slot_tokens"),
    [
        pytest.param(4096, None, None, 4096, 1, 4096, id="no slots given: four in one pool"),
        pytest.param(4096, None, False, 4096, 1, 4096, id="no slots given: -no-kvu changes nothing"),
        pytest.param(4096, 4, True, 4096, 1, 4096, id="one pool"),
        pytest.param(4096, 4, None, 1024, 4, 1024, id="slots given: a pool each"),
        pytest.param(4096, 2, False, 2048, 2, 2048, id="a pool each, asked for"),
        pytest.param(5000, 3, False, 1792, 3, 1792, id="rounded up twice"),
        pytest.param(1000, 3, False, 512, 3, 512, id="the total grows beyond what was asked"),
        pytest.param(100, 4, False, 256, 4, 256, id="never less than 256 a slot"),
        pytest.param(300, 1, None, 512, 1, 512, id="rounded up to 256"),
        pytest.param(0, 1, None, 32768, 1, 32768, id="0 is the training length"),
        pytest.param(65536, 1, None, 65536, 1, 32768, id="beyond training: allocated, not used"),
        pytest.param(40000, 1, None, 40192, 1, 32768, id="beyond training and rounded"),
    ],
)
def test_flags_become_cells(
    ctx: int, parallel: int | None, unified: bool | None, seq: int, streams: int, slot_tokens: int
) -> None:
    layout = cell_layout(ctx, training_ctx=32768, parallel=parallel, unified=unified)
    assert (layout.seq_cells, layout.streams, layout.slot_tokens) == (seq, streams, slot_tokens)
    assert layout.total_cells == seq * streams


@pytest.mark.parametrize(
    ("ctx", "ubatch", "expected"),
    [
        pytest.param(8192, 512, 512, id="the default"),
        pytest.param(300, 512, 300, id="never more than the context as typed"),
        pytest.param(32768, 4096, 2048, id="never more than the batch"),
    ],
)
def test_the_micro_batch_is_clamped(ctx: int, ubatch: int, expected: int) -> None:
    assert cell_layout(ctx, training_ctx=32768, parallel=1, ubatch=ubatch).ubatch == expected


def test_a_batch_that_looks_both_ways_is_not_cut_to_the_context() -> None:
    assert cell_layout(300, training_ctx=512, parallel=1, causal=False).ubatch == 512


@pytest.mark.parametrize(
    ("parallel", "unified", "expected"),
    [
        pytest.param(1, None, 1536, id="one slot"),
        pytest.param(4, True, 4608, id="each slot needs its window in a shared pool"),
        pytest.param(4, False, 1536, id="a pool each"),
    ],
)
def test_a_window_cache_holds_the_window_and_a_batch(parallel: int, unified: bool | None, expected: int) -> None:
    layout = cell_layout(32768, training_ctx=32768, parallel=parallel, unified=unified)
    assert layout.window_cells(1000, swa_full=False, shared=layout.streams == 1) == expected
    assert layout.window_cells(1000, swa_full=True, shared=True) == layout.seq_cells


def test_a_window_cache_is_never_longer_than_the_full_one() -> None:
    layout = cell_layout(512, training_ctx=32768, parallel=1)
    assert layout.window_cells(4096, swa_full=False, shared=True) == 512


@pytest.mark.parametrize("parallel", [0, -1, 257])
def test_slots_the_engine_refuses_are_an_error(parallel: int) -> None:
    with pytest.raises(ValueError, match="slots must be 1 to 256"):
        cell_layout(4096, training_ctx=32768, parallel=parallel)


def test_a_negative_context_is_an_error() -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        cell_layout(-1, training_ctx=32768)


@given(st.integers(1, 200_000), st.integers(1, 256), st.booleans())
def test_cells_are_whole_steps_and_enough(ctx: int, parallel: int, unified: bool) -> None:
    layout = cell_layout(ctx, training_ctx=32768, parallel=parallel, unified=unified)
    assert layout.seq_cells % 256 == 0
    assert layout.total_cells >= ctx
    assert layout.total_cells < ctx + 256 * (parallel + 1)

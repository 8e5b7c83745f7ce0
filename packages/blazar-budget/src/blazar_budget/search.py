"""The largest setting that still fits: context, layers on accelerators, and the default context."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from blazar_budget.cells import CELL_PAD
from blazar_budget.footprint import Launch, footprint
from blazar_budget.judgement import Judgement, Room, judge
from blazar_budget.machine import Memory
from blazar_budget.memory import plan_memory
from blazar_budget.shape import read_context_length
from blazar_gguf import GgufMeta

DEFAULT_CTX_STEP: Final = 1024
DEFAULT_CTX_MOST: Final = 65536
DEFAULT_CTX_COMFORT: Final = 8192
"""A default below this is worth a warning: agents break silently in small windows."""


def max_ctx_that_fits(
    meta: GgufMeta,
    launch: Launch,
    memory: Memory,
    *,
    parts: Sequence[GgufMeta] = (),
    most: int | None = None,
    step: int = CELL_PAD,
    room: Room = Room.TIGHT,
) -> int:
    """Return the largest context in tokens that may be served, a multiple of ``step``; 0 when none may.

    Args:
        meta: header of the model.
        launch: how it would be started; its context is not looked at.
        memory: what there is.
        parts: headers of all parts of a split model.
        most: upper bound; None for the training length (or 65536 when the file gives none).
        step: granularity in tokens.
        room: the least comfort that counts: ``TIGHT`` for anything that is served, ``AMPLE`` for a plain fit.

    Raises:
        BudgetError: the engine refuses the settings.
    """
    limit = (most if most is not None else read_context_length(meta) or DEFAULT_CTX_MOST) // step

    def fits(steps: int) -> bool:
        needs = footprint(meta, launch.with_ctx(steps * step), memory, parts=parts)
        return _enough(judge(needs, memory).room, room)

    return _largest(limit, fits) * step


def max_gpu_layers_that_fit(
    meta: GgufMeta,
    launch: Launch,
    memory: Memory,
    *,
    parts: Sequence[GgufMeta] = (),
    room: Room = Room.TIGHT,
) -> int | None:
    """Return the largest ``-ngl`` that may be served with the rest on the host; None when no number may.

    Args: as for :func:`max_ctx_that_fits`. On a machine without accelerators the answer is None.
    """
    if not memory.pools:
        return None

    def judged(layers: int) -> Judgement:
        return judge(footprint(meta, launch.with_gpu_layers(layers), memory, parts=parts), memory)

    # fewer layers always relieve the accelerators, and always burden the host
    most = _largest(plan_memory(meta).layer_count + 1, lambda layers: _enough(judged(layers).pool_room, room))
    return most if most and _enough(judged(most).room, room) else None


@dataclass(frozen=True, slots=True)
class ContextChoice:
    """The context a model gets when nobody asked for one.

    Attributes:
        ctx: tokens.
        room: how it fits.
        warning: what a listing should say about it, or "".
    """

    ctx: int
    room: Room
    warning: str = ""


def default_context(meta: GgufMeta, launch: Launch, memory: Memory, *, parts: Sequence[GgufMeta] = ()) -> ContextChoice:
    """Return the largest multiple of 1024 up to min(training length, 65536) that plainly fits.

    A model shorter than 1024 tokens gets its own length. Where nothing plainly fits but something may be served, the
    largest such context up to 8192 is taken, with a warning; where nothing may, the smallest, and ``room`` says so.

    Args: as for :func:`max_ctx_that_fits`.
    """
    trained = read_context_length(meta)
    most = min(trained or DEFAULT_CTX_MOST, DEFAULT_CTX_MOST)
    step = min(DEFAULT_CTX_STEP, most)
    ctx = max_ctx_that_fits(meta, launch, memory, parts=parts, most=most, step=step, room=Room.AMPLE)
    if ctx:
        return ContextChoice(ctx, Room.AMPLE, _small_warning(ctx, trained))
    tight = min(most, DEFAULT_CTX_COMFORT)
    ctx = max_ctx_that_fits(meta, launch, memory, parts=parts, most=tight, step=step)
    if ctx:
        return ContextChoice(ctx, Room.TIGHT, f"memory is tight: the context was set to {ctx:,} tokens")
    return ContextChoice(step, Room.OVER, "the model does not fit with any context")


def _small_warning(ctx: int, trained: int) -> str:
    if ctx >= DEFAULT_CTX_COMFORT or (trained and ctx >= trained):
        return ""
    return f"memory allows only {ctx:,} tokens of context; long conversations and agents will not fit"


def _enough(found: Room, wanted: Room) -> bool:
    return found is Room.AMPLE or (found is Room.TIGHT and wanted is Room.TIGHT)


def _largest(limit: int, fits: Callable[[int], bool]) -> int:
    """Largest number in 1..limit for which a falling predicate holds, 0 for none."""
    low, high = 0, max(limit, 0)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low

"""From the engine's flags to cells: how many token positions a cache holds, and how often.

Rules of llama.cpp b10434, measured on its llama-server (docs: reference of KV caches, section 1):

1. Slots are ``-np``. When the flag is absent there are four slots in a unified pool, whatever ``-no-kvu`` says;
   otherwise the pool is unified only with ``-kvu``.
2. The context is rounded **up** to 256; a stream of a divided pool is context / slots, rounded up to 256 again, so
   the total may exceed what was asked for.
3. A context beyond the training length is allocated in full; only what a slot may use is capped.
4. The micro-batch never exceeds the batch, and the batch never exceeds the context as typed.
"""

from dataclasses import dataclass
from typing import Final

CELL_PAD: Final = 256
"""Caches grow in steps of this many cells."""

AUTO_SLOTS: Final = 4
"""Slots when ``-np`` is absent."""

MAX_SLOTS: Final = 256
"""Most sequences the engine keeps apart."""

DEFAULT_BATCH: Final = 2048
"""The engine's ``-b``."""

DEFAULT_UBATCH: Final = 512
"""The engine's ``-ub``; raising it was measured as a regression."""


def pad(cells: int, multiple: int = CELL_PAD) -> int:
    """Round up to a multiple."""
    return -(-cells // multiple) * multiple


@dataclass(frozen=True, slots=True)
class CellLayout:
    """How many cells the engine makes of the flags it was given.

    Attributes:
        slots: sequences served at once.
        unified: True when all slots share one pool.
        seq_cells: cells of one stream, ``n_ctx_seq`` in the engine's log.
        streams: pools; 1 when unified, otherwise one per slot.
        slot_tokens: tokens one slot may use (``n_ctx_slot``), capped at the training length.
        ubatch: tokens computed at once, after the engine's own clamps.
    """

    slots: int
    unified: bool
    seq_cells: int
    streams: int
    slot_tokens: int
    ubatch: int

    @property
    def total_cells(self) -> int:
        """Cells of all streams together, ``n_ctx`` in the engine's log."""
        return self.seq_cells * self.streams

    def window_cells(self, window: int, *, swa_full: bool, shared: bool) -> int:
        """Cells of one stream of a sliding-window cache.

        Args:
            window: tokens a window layer looks back.
            swa_full: ``--swa-full`` was given.
            shared: the stream serves all slots, so each slot needs a window in it.
        """
        if swa_full:
            return self.seq_cells
        reach = window * (self.slots if shared else 1) + self.ubatch
        return pad(min(self.seq_cells, reach))


def cell_layout(
    ctx: int,
    *,
    training_ctx: int,
    parallel: int | None = None,
    unified: bool | None = None,
    ubatch: int = DEFAULT_UBATCH,
    batch: int = DEFAULT_BATCH,
    causal: bool = True,
) -> CellLayout:
    """Return the cells the engine allocates for these flags.

    Args:
        ctx: ``-c`` in tokens; 0 means the training length.
        training_ctx: the model's ``context_length``; 0 when the file does not say.
        parallel: ``-np``; None when the flag is not given.
        unified: True for ``-kvu``, False for ``-no-kvu``, None for neither; without ``parallel`` it does not matter.
        ubatch: ``-ub`` in tokens.
        batch: ``-b`` in tokens.
        causal: tokens look back only; where they look both ways a batch is not cut to the context.

    Raises:
        ValueError: a negative context, or slots outside 1..256 (the engine exits on those).
    """
    if ctx < 0:
        raise ValueError(f"context must not be negative, got {ctx}; 0 means the training length")
    if parallel is not None and not 1 <= parallel <= MAX_SLOTS:
        raise ValueError(f"slots must be 1 to {MAX_SLOTS}, got {parallel}")
    slots = AUTO_SLOTS if parallel is None else parallel
    one_pool = parallel is None or bool(unified)
    asked = ctx or training_ctx
    pool = pad(max(asked, 1))
    seq = pool if one_pool else pad(max(pool // slots, 1))
    tokens = min(batch, asked) if asked and causal else batch
    return CellLayout(
        slots=slots,
        unified=one_pool,
        seq_cells=seq,
        streams=1 if one_pool else slots,
        slot_tokens=min(seq, training_ctx) if training_ctx else seq,
        ubatch=max(min(tokens, ubatch), 1),
    )

"""The memory of an instance whose context is not settled yet: what is wished for, and less where that does not fit."""

from collections.abc import Sequence

from blazar_budget import Memory
from blazar_gguf import GgufMeta
from blazar_routing.errors import ContextDoesNotFit, ModelDoesNotFit
from blazar_routing.instances import Role
from blazar_store.types import ModelRow
from blazar_supervisor.engines.profile import Knobs
from blazar_supervisor.residency.memory_budget import UNKNOWN_TRAINING_CTX, Budgeted, budget_memory
from blazar_supervisor.residency.shapes import attempts


def budget_first_that_fits(
    row: ModelRow,
    parts: Sequence[GgufMeta],
    knobs: Knobs,
    memory: Memory | None,
    *,
    role: Role,
    ctx_tokens: int,
) -> tuple[Knobs, Budgeted]:
    """Return the knobs that are used and what they cost. Blocks.

    What the setting, or the verdict, gives by itself is taken where that is at least what clients ask for.

    Args:
        row: The model.
        parts: The headers of its files, the first first.
        knobs: Those of the instance.
        memory: What it could have if no other model were loaded, or ``None`` when that is unknown.
        role: What the instance is for.
        ctx_tokens: The context that clients ask for, 0 for none.

    Raises:
        ContextDoesNotFit: The context asked for does not.
        ModelDoesNotFit: Nothing does.
    """
    trained = parts[0].context_length or row.ctx_train or UNKNOWN_TRAINING_CTX
    if ctx_tokens and knobs.vectors is None:
        plain = budget_memory(row, parts, knobs, memory)
        if plain.ctx_tokens >= min(ctx_tokens, trained) or knobs.ctx is not None:
            return knobs, plain
    *others, last = attempts(knobs, role, trained=trained, ctx_tokens=ctx_tokens)
    for tried in others:
        try:
            return tried, budget_memory(row, parts, tried, memory)
        except ModelDoesNotFit:
            continue
    try:
        return last, budget_memory(row, parts, last, memory)
    except ModelDoesNotFit as error:
        if not ctx_tokens or knobs.vectors is not None:
            raise
        raise ContextDoesNotFit(model=row.name, ctx_tokens=ctx_tokens, verdict=error.verdict) from error

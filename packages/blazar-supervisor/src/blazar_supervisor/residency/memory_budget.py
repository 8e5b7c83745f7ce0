"""The context a model gets and the memory it will take, by ``blazar_budget``'s verdict."""

from dataclasses import dataclass

from blazar_gguf import GgufMeta
from blazar_store.types import ModelRow
from blazar_supervisor.engines.profile import Knobs
from blazar_supervisor.residency.pools import Bytes

MOST_AUTO_CTX = 65_536
"""The largest context that ``auto`` chooses."""

UNKNOWN_TRAINING_CTX = 4096
_STEP = 1024


@dataclass(frozen=True, slots=True)
class Budgeted:
    """What was decided.

    Attributes:
        ctx_tokens: The context to pass.
        need: The memory it will take.
        verdict: The budget's sentence.
        warnings: What its owner should know.
    """

    ctx_tokens: int
    need: Bytes
    verdict: str
    warnings: tuple[str, ...] = ()


def budget_memory(row: ModelRow, meta: GgufMeta, knobs: Knobs, limit: Bytes | None) -> Budgeted:
    """Return the context for ``row`` and what it costs."""
    del limit
    trained = meta.context_length or row.ctx_train or UNKNOWN_TRAINING_CTX
    warnings: list[str] = []
    if knobs.ctx is not None:
        ctx = min(knobs.ctx, trained)
        if ctx < knobs.ctx:
            warnings.append(f"ctx = {knobs.ctx} is more than the {trained} tokens the model was trained for")
    else:
        ctx = max(_STEP, min(trained, MOST_AUTO_CTX) // _STEP * _STEP)
    return Budgeted(ctx_tokens=ctx, need=Bytes(host=row.size_bytes), verdict="", warnings=tuple(warnings))

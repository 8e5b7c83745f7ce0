"""The context a model gets and the memory it will take, by ``blazar_budget``'s verdict. Blocks: it reads headers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from blazar_budget import (
    FitWithWarning,
    Footprint,
    Memory,
    Refuse,
    default_context,
    unified_ctx_verdict,
)
from blazar_gguf import AttentionClass, GgufMeta
from blazar_routing.errors import ModelDoesNotFit, ProfileRejected
from blazar_store.types import ModelRow
from blazar_supervisor.engines.llamacpp.memory_flags import launch_of
from blazar_supervisor.engines.profile import Knobs
from blazar_supervisor.residency.pools import Bytes

MOST_AUTO_CTX = 65_536
"""The largest context that ``auto`` chooses."""

UNKNOWN_TRAINING_CTX = 4096
_STEP = 1024
_STRETCHES = ("--rope-scaling", "--rope-scale", "--rope-freq-scale", "--rope-freq-base", "--yarn-orig-ctx")
"""Extra arguments with which a context beyond the training length makes sense."""


@dataclass(frozen=True, slots=True)
class Budgeted:
    """What was decided.

    Attributes:
        ctx_tokens: The context to pass.
        need: The memory it will take.
        verdict: The budget's answer in a word, or ``""`` when nothing is known of the machine.
        warnings: What its owner should know.
        estimate_bytes: What the engine is expected to report, all devices together: the need without the reserve.
    """

    ctx_tokens: int
    need: Bytes
    verdict: str
    warnings: tuple[str, ...] = ()
    estimate_bytes: int = 0


def budget_memory(row: ModelRow, parts: Sequence[GgufMeta], knobs: Knobs, memory: Memory | None) -> Budgeted:
    """Return the context for ``row`` and what it costs.

    An explicit context is honoured or refused, never cut. One beyond the training length, of which an engine would
    never use the rest, is refused where it was written for this model (:func:`refuse_beyond_training`); what stands
    there for every model, or in a Modelfile, means that length.

    Args:
        row: The model.
        parts: The headers of its files, the first first.
        knobs: Its settings.
        memory: What it could have if no other model were loaded, or ``None`` when that is unknown.

    Raises:
        ModelDoesNotFit: Not even then; the text names the ways out.
    """
    meta = parts[0]
    trained = meta.context_length or row.ctx_train or UNKNOWN_TRAINING_CTX
    logits = _logits_bytes(meta, knobs)
    launch = launch_of(row, knobs, logits_bytes=logits)
    warnings: list[str] = []
    if knobs.ctx is not None:
        ctx = knobs.ctx
        if ctx > trained and not set(_STRETCHES) & set(knobs.extra_args):
            ctx = trained
            warnings.append(
                f"ctx = {knobs.ctx} is more than the {trained} tokens the model was trained for: it gets those"
            )
    elif memory is None:
        ctx = max(_STEP, min(trained, MOST_AUTO_CTX) // _STEP * _STEP)
    else:
        choice = default_context(meta, launch, memory, parts=parts)
        ctx = choice.ctx
        if choice.warning:
            warnings.append(choice.warning)
    if memory is None:
        return Budgeted(ctx_tokens=ctx, need=Bytes(), verdict="", warnings=tuple(warnings))
    verdict = unified_ctx_verdict(meta, launch_of(row, knobs, ctx=ctx, logits_bytes=logits), memory, parts=parts)
    if isinstance(verdict, Refuse):
        raise ModelDoesNotFit(model=row.name, verdict=verdict.text)
    if isinstance(verdict, FitWithWarning):
        warnings += verdict.warnings
    return Budgeted(
        ctx_tokens=ctx,
        need=need_of(verdict.footprint, memory),
        verdict=verdict.answer.value,
        warnings=tuple(warnings),
        estimate_bytes=sum(
            demand.needed_bytes - demand.overhead_bytes + demand.compute.likely for demand in verdict.footprint.demands
        ),
    )


def refuse_beyond_training(row: ModelRow, meta: GgufMeta, ctx: int, extra_args: Sequence[str]) -> None:
    """Refuse a context that was written for this very model and that it cannot have.

    Raises:
        ProfileRejected: It is more than the model was trained for, and nothing stretches it.
    """
    trained = meta.context_length or row.ctx_train
    if trained is None or not 0 < trained < ctx or set(_STRETCHES) & set(extra_args):
        return
    raise ProfileRejected(
        model=row.name,
        reason=(
            f"ctx = {ctx} is more than the {trained} tokens the model was trained for, and an engine gives no request "
            f"more: set ctx = {trained}, or stretch the model with `--rope-scaling` in extra_args"
        ),
    )


def _logits_bytes(meta: GgufMeta, knobs: Knobs) -> int:
    """Return what a causal model that makes vectors computes for nothing: 32-bit logits of its whole batch."""
    if knobs.vectors is None or meta.attention_class is AttentionClass.NONE:
        return 0
    return 4 * meta.vocab_size * knobs.ubatch


def need_of(needs: Footprint, memory: Memory) -> Bytes:
    """Return a footprint in the two pools of the census; accelerators that share main memory count as that.

    Never more than there is: what is served although it is estimated to be too large (a guess on an unknown layout,
    or layers that the engine's own fitting will keep elsewhere) takes everything.
    """
    shared = {pool.device for pool in memory.pools if pool.unified}
    host = device = 0
    for demand in needs.demands:
        if demand is needs.host or demand.device in shared:
            host += demand.needed_bytes
        else:
            device += demand.needed_bytes
    dedicated = sum(pool.bytes for pool in memory.pools if not pool.unified)
    return Bytes(min(host, memory.ram_bytes), min(device, dedicated))


def memory_within(memory: Memory, limit: Bytes) -> Memory:
    """Return what of the machine's memory is within ``limit``, which knows accelerators only all together."""
    dedicated = sum(pool.bytes for pool in memory.pools if not pool.unified)
    share = min(1.0, max(0, limit.device) / dedicated) if dedicated else 0.0
    host = max(0, min(memory.ram_bytes, limit.host))
    return Memory(
        host,
        tuple(
            replace(pool, bytes=min(pool.bytes, host) if pool.unified else int(pool.bytes * share))
            for pool in memory.pools
        ),
    )

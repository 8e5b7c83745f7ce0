"""How an instance is shaped by what it is for, over the settings of its model. Pure.

* The plain instance of a text model answers; of an embedder it makes vectors, of a reranker scores, because their
  files say so (a pooling type; ``rank`` for rerankers).
* ``@vision`` is the plain one with the projector attached, for ``mmproj_policy = "lazy"``.
* ``@embed`` makes vectors of a text model: the mean over the tokens, since its file names no pooling.

An engine that makes vectors takes an input in one physical batch, so that batch is as large as the context. That costs
memory (a causal model computes the logits of all of it), hence the contexts of :data:`EMBED_STEPS`, the first that
fits being taken.
"""

from collections.abc import Sequence
from dataclasses import replace

from blazar_gguf import AttentionClass, GgufMeta, PoolingType
from blazar_routing.instances import Role
from blazar_store.settings_speculation import SpeculationSettings
from blazar_supervisor.engines.profile import Knobs, Vectors
from blazar_supervisor.residency.contexts import steps_for

EMBED_STEPS = (8192, 4096, 2048, 1024, 512)
"""Contexts of an embedder whose owner set none."""

_FOR_ANSWERS = (
    "context_shift", "slot_prompt_similarity", "samplers", "chat_template", "chat_template_file",
    "chat_template_kwargs", "reasoning_effort", "mcp_servers_config", "mcp_servers_json",
    *SpeculationSettings.model_fields,
)  # fmt: skip
"""Settings that an instance which makes vectors has no use for."""

EMBED_STEPS_OF_TEXT = (2048, 1024, 512)
"""Likewise of the ``@embed`` instance of a text model, beside which the model itself should have room."""


def shape_for(knobs: Knobs, role: Role, meta: GgufMeta, *, lazy_projector: bool) -> Knobs:
    """Return the knobs of one instance.

    Args:
        knobs: The model's settings.
        role: What the instance is for.
        meta: The header of the model's first file.
        lazy_projector: Whether the plain instance does without the projector that the model has.
    """
    match role:
        case Role.VISION:
            return knobs
        case Role.EMBED:
            return _for_vectors(knobs, Vectors("embeddings", _pooling_for(meta)))
        case Role.PLAIN:
            if meta.pooling_type is PoolingType.RANK:
                return _for_vectors(knobs, Vectors("reranking"))
            if makes_vectors(meta):
                return _for_vectors(knobs, Vectors("embeddings", _pooling_for(meta)))
            return replace(knobs, mmproj=False) if lazy_projector else knobs


def makes_vectors(meta: GgufMeta) -> bool:
    """Return whether a file is an embedder's or a reranker's: it pools, or it remembers nothing."""
    return meta.pooling_type not in {None, PoolingType.NONE} or meta.attention_class is AttentionClass.NONE


def can_continue(meta: GgufMeta, extra_args: Sequence[str]) -> bool:
    """Return whether an engine can go on from a slot that was saved and given back.

    A cache that slides keeps only the last tokens of its window's layers, and the engine reads the whole prompt anew
    (b10434), unless it was started with ``--swa-full``; a recurrent state holds its end only, no prefix of it.
    """
    if any(meta.recurrent_layers):
        return False
    return not any(meta.window_layers) or any(word.replace("_", "-") == "--swa-full" for word in extra_args)


def attempts(knobs: Knobs, role: Role, *, trained: int, ctx_tokens: int) -> tuple[Knobs, ...]:
    """Return the knobs to try in this order until one fits in memory.

    Args:
        knobs: Those of the instance.
        role: What it is for.
        trained: Tokens the model was trained for.
        ctx_tokens: The context that clients ask for, 0 for none. It counts only where the owner set none.
    """
    if knobs.vectors is not None:
        steps = EMBED_STEPS_OF_TEXT if role is Role.EMBED else EMBED_STEPS
        sizes = (knobs.ctx,) if knobs.ctx is not None else tuple(dict.fromkeys(min(size, trained) for size in steps))
        return tuple(replace(knobs, ctx=size, ubatch=min(size, trained)) for size in sizes)
    if knobs.ctx is not None or not ctx_tokens:
        return (knobs,)
    return tuple(replace(knobs, ctx=size) for size in steps_for(ctx_tokens, trained=trained))


def _pooling_for(meta: GgufMeta) -> str | None:
    return "mean" if meta.pooling_type in {None, PoolingType.NONE} else None


def _for_vectors(knobs: Knobs, vectors: Vectors) -> Knobs:
    """Return knobs without what only answers need."""
    return replace(
        knobs,
        vectors=vectors,
        mmproj=False,
        chat_template_file=None,
        cache_ram_mb=0,
        written=knobs.written.model_copy(update=dict.fromkeys(_FOR_ANSWERS)),
    )

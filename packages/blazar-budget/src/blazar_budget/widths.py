"""How many numbers per token are alive at once while a model computes: the width of its widest moment.

The engine's scratch buffer is the peak of its compute graph. For ordinary decoders that peak is in the feed-forward
part, and it is exactly ``3 x feed_forward + 4 x embedding`` numbers per token of the micro-batch; other parts have
their own sums. The formulas were read off about 1,700 buffers that llama.cpp b10434 allocated, for tiny models and for
skeletons of real ones (Llama 3.1, Qwen 3, Gemma 3, gpt-oss, DeepSeek V3, Nemotron-H and others); they are a model of
the engine, not its code, which is why an interval is given.
"""

from dataclasses import dataclass
from typing import Final

from blazar_budget.architectures import HYBRID, RECURRENT, UNGATED
from blazar_budget.memory import MemoryPlan
from blazar_budget.shape import KeyReader
from blazar_gguf import GgufMeta

_GEMMA3N_INPUT: Final = 256
"""Width of a layer's own token input in gemma3n; fixed in the engine."""
_GEMMA3N_STREAMS: Final = 4
_RWKV_EMBEDDINGS: Final = 20


@dataclass(frozen=True, slots=True)
class Widths:
    """Numbers (4 bytes each) that are alive at the widest moment.

    Attributes:
        low, high: per token of the micro-batch.
        attention: per token, beside attention scores; matters without flash attention.
        inputs: per token, what is prepared on the host for all layers.
        per_slot: for each slot, whatever the micro-batch: recurrent state being rewritten.
    """

    low: int
    high: int
    attention: int
    inputs: int
    per_slot: int


def find_widths(meta: GgufMeta, plan: MemoryPlan) -> Widths:
    """Return the widths of one model."""
    shape, keys = plan.shape, KeyReader(meta)
    embedding = shape.embedding
    key_row = max((width for cache in plan.caches for width in cache.key_elements), default=0)
    value_row = max((width for cache in plan.caches for width in cache.value_elements), default=0)
    query = max(shape.heads, default=0) * max(shape.key_length, shape.key_length_swa)
    rows = query + key_row + value_row
    attention = 4 * embedding + rows
    lows, highs = _feed_forward(meta, plan, keys)
    moments = [lows, attention - embedding]
    # a fused query-key-value product lives beside its parts; latent projections beside their expansions
    peaks = [highs, attention + max(rows, 2 * embedding)]
    if plan.latent:
        wide = query + 2 * max(shape.heads, default=0) * keys.number("attention.kv_lora_rank")
        moments.append(wide)
        peaks.append(wide + 5 * embedding)
    state_low, state_high = _recurrent(meta, plan, keys)
    inputs = _layer_inputs(meta, plan, keys)
    low = max(*moments, state_low)
    high = max(*peaks, state_high) + (2 * inputs if meta.architecture == "gemma4" else 0)
    if meta.architecture == "gemma3n":
        streams = _GEMMA3N_STREAMS * inputs
        low, high = max(low, streams * 3 // 4), max(high + inputs + 8 * embedding, streams + 8 * embedding)
    per_slot = sum(rows.s_elements + 2 * rows.r_elements for rows in plan.states[:1])
    return Widths(low, high, attention, inputs, per_slot)


def _feed_forward(meta: GgufMeta, plan: MemoryPlan, keys: KeyReader) -> tuple[int, int]:
    """Dense and mixed feed-forward parts; a model may have both."""
    shape, embedding = plan.shape, plan.shape.embedding
    dense = max(shape.feed_forward, default=0)
    used = keys.number("expert_used_count") if keys.number("expert_count") else 0
    expert = keys.number("expert_feed_forward_length", dense)
    lows, highs = [embedding], [4 * embedding]
    if used:
        routed = 3 * used * expert
        lows.append(min(routed + 3 * embedding, 2 * used * embedding))
        highs.append(max(routed + 5 * embedding, (2 * used + 7) * embedding))
    if not used or keys.number("leading_dense_block_count") or keys.number("interleave_moe_layer_step", 1) > 1:
        branches = 1 if meta.architecture in UNGATED else 3
        lows.append(branches * dense + embedding)
        highs.append(branches * dense + 5 * embedding)
    return max(lows), max(highs)


def _recurrent(meta: GgufMeta, plan: MemoryPlan, keys: KeyReader) -> tuple[int, int]:
    """State-space, delta-net and RWKV mixers."""
    embedding = plan.shape.embedding
    architecture = meta.architecture
    if "rwkv" in architecture:
        return _RWKV_EMBEDDINGS * embedding * 2 // 3, _RWKV_EMBEDDINGS * embedding
    if architecture not in HYBRID and architecture not in RECURRENT:
        return 0, 0
    if architecture.startswith("lfm2"):
        return 0, 8 * embedding
    if architecture == "kimi-linear":
        inner = max(plan.shape.heads, default=0) * keys.number("kda.head_dim")
        return 3 * inner, 16 * inner
    inner, state = keys.number("ssm.inner_size"), keys.number("ssm.state_size")
    mixed = inner + 2 * keys.number("ssm.group_count") * state
    projected = inner + mixed + keys.number("ssm.time_step_rank")
    width = projected + 2 * mixed + 2 * inner + embedding
    return width * 3 // 4, width * 3 // 2


def _layer_inputs(meta: GgufMeta, plan: MemoryPlan, keys: KeyReader) -> int:
    """Inputs that models with per-layer embeddings prepare for every layer at once."""
    if meta.architecture == "gemma3n":
        return _GEMMA3N_INPUT * plan.shape.layers
    return keys.number("embedding_length_per_layer_input") * plan.shape.layers

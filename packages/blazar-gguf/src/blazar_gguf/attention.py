"""How each architecture remembers: which layers slide, which are recurrent, which class the whole belongs to.

Sources: the key-value cache rules measured against llama.cpp b10434 (window periods and their defaults, recurrent
layers of hybrids); everything not named here is a plain decoder that keeps one row per layer and token.
"""

from dataclasses import dataclass
from typing import Final

from blazar_gguf.hparams import Hparams, as_int
from blazar_gguf.types import AttentionClass, RecurrentDims

NO_CACHE: Final = frozenset(
    {
        "bert",
        "nomic-bert",
        "nomic-bert-moe",
        "modern-bert",
        "neo-bert",
        "jina-bert-v2",
        "jina-bert-v3",
        "eurobert",
        "gemma-embedding",
        "wavtokenizer-dec",
        "dream",
        "llada",
        "llada-moe",
        "rnd1",
    }
)
"""Architectures that attend to their whole input at once and cache nothing."""

RECURRENT: Final = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""Every layer is recurrent."""

HYBRID_BY_HEADS: Final = frozenset({"jamba", "granitehybrid", "plamo2", "lfm2", "lfm2moe", "kimi-linear"})
"""A layer without key-value heads is recurrent."""

HYBRID_BY_HEADS_AND_FF: Final = frozenset({"nemotron_h", "nemotron_h_moe"})
"""A layer with neither key-value heads nor a feed-forward part is recurrent."""

HYBRID_BY_INTERVAL: Final = frozenset({"qwen3next", "qwen35", "qwen35moe"})
"""Every ``full_attention_interval``-th layer attends, the others are recurrent."""

HYBRID_EVERYWHERE: Final = frozenset({"falcon-h1"})
"""Each layer has both."""

SPARSE: Final = frozenset({"deepseek32", "glm-dsa", "minimax-m3", "deepseek4"})
"""An indexer cache beside the ordinary or latent one."""


@dataclass(frozen=True, slots=True)
class WindowRule:
    """How an architecture lays out its sliding-window layers.

    Attributes:
        period: every ``period``-th layer sees everything, by default; 0 when there is no default.
        full_first: the full layer is the first of its group instead of the last.
        scalar: a number in ``sliding_window_pattern`` replaces the period.
        array: an array in ``sliding_window_pattern`` says it layer by layer.
        always: slides even when no window is given.
        window: fixed window in tokens (the file's value is overridden), or 0.
        default_window: window when the key is absent.
    """

    period: int = 0
    full_first: bool = False
    scalar: bool = True
    array: bool = False
    always: bool = True
    window: int = 0
    default_window: int = 0


WINDOWS: Final = {
    "gemma2": WindowRule(2, default_window=4096),
    "gemma3": WindowRule(6, always=False),
    "gemma3n": WindowRule(5),
    "gemma4": WindowRule(scalar=False, array=True),
    "cohere2": WindowRule(4),
    "gpt-oss": WindowRule(2),
    "olmo2": WindowRule(4, always=False),
    "llama4": WindowRule(4, window=8192),
    "smallthinker": WindowRule(4, full_first=True, always=False, window=4096),
    "laguna": WindowRule(4, full_first=True, always=False),
    "exaone4": WindowRule(4, always=False),
    "exaone-moe": WindowRule(4),
    "afmoe": WindowRule(4, always=False),
    "plamo3": WindowRule(8, always=False),
    "mellum": WindowRule(4, array=True, always=False),
    "muse-glimmer": WindowRule(4, array=True),
    "cohere2moe": WindowRule(4, full_first=True, array=True),
    "mimo2": WindowRule(scalar=False, array=True),
    "step35": WindowRule(scalar=False, array=True),
    "lfm2": WindowRule(1, scalar=False, always=False),
    "gemma-embedding": WindowRule(6),
    "modern-bert": WindowRule(3, full_first=True),
}
"""Architectures in which ``attention.sliding_window`` has an effect; elsewhere the engine ignores the key."""

_EXAONE4_WINDOW_LAYERS: Final = 64
"""exaone4 slides in its 64-layer size only."""


def window_tokens(h: Hparams) -> int:
    """The window the engine applies, in tokens; 0 when no layer slides."""
    rule = WINDOWS.get(h.architecture)
    if rule is None:
        return 0
    stored = as_int(h.get("attention.sliding_window"))
    if h.architecture == "exaone4" and h.block_count() != _EXAONE4_WINDOW_LAYERS:
        return 0
    if rule.window:
        return 0 if stored == 0 or (stored is None and not rule.always) else rule.window
    return max(0, rule.default_window if stored is None else stored)


def window_layers(h: Hparams) -> tuple[bool, ...]:
    """For each layer, True when it keeps only the last :func:`window_tokens` tokens."""
    n = h.layers()
    rule = WINDOWS.get(h.architecture)
    if rule is None or window_tokens(h) == 0:
        return (False,) * n
    if h.architecture == "lfm2":
        return tuple(heads > 0 for heads in head_counts_kv(h))
    pattern = h.get("attention.sliding_window_pattern")
    if rule.array and isinstance(pattern, tuple):
        given = tuple(bool(flag) for flag in pattern[:n])
        return given + (given[-1] if given else False,) * (n - len(given))
    number = as_int(pattern) if rule.scalar else None
    period = rule.period if number is None else number
    if period <= 0:
        return (number == 0,) * n
    full_at = 0 if rule.full_first else period - 1
    return tuple(i % period != full_at for i in range(n))


def head_counts(h: Hparams) -> tuple[int, ...]:
    """Query heads of each layer."""
    return h.per_layer("attention.head_count")


def head_counts_kv(h: Hparams) -> tuple[int, ...]:
    """Key-value heads of each layer; as many as query heads where the file does not say."""
    return h.per_layer("attention.head_count_kv", head_counts(h))


def recurrent_layers(h: Hparams) -> tuple[bool, ...]:
    """For each layer, True when it carries a constant state (it may have key-value rows as well)."""
    n, arch = h.layers(), h.architecture
    if arch in RECURRENT or arch in HYBRID_EVERYWHERE:
        return (True,) * n
    if arch in HYBRID_BY_HEADS:
        return tuple(heads == 0 for heads in head_counts_kv(h))
    if arch in HYBRID_BY_HEADS_AND_FF:
        ff = h.per_layer("feed_forward_length")
        return tuple(heads == 0 and f == 0 for heads, f in zip(head_counts_kv(h), ff, strict=True))
    if arch in HYBRID_BY_INTERVAL:
        given = h.get("attention.recurrent_layers")
        if isinstance(given, tuple):
            flags = tuple(bool(flag) for flag in given[:n])
            return flags + (False,) * (n - len(flags))
        interval = h.integer("full_attention_interval") or 4
        attending = n - min(n, h.integer("nextn_predict_layers"))
        return tuple((i + 1) % interval != 0 and i < attending for i in range(n))
    return (False,) * n


def kv_layers(h: Hparams) -> tuple[bool, ...]:
    """For each layer, True when it has key-value rows of its own kind (sharing and loops not considered)."""
    n, arch = h.layers(), h.architecture
    if arch in NO_CACHE or arch in RECURRENT:
        return (False,) * n
    heads = head_counts_kv(h)
    if arch in HYBRID_BY_HEADS_AND_FF:
        ff = h.per_layer("feed_forward_length")
        return tuple(k > 0 and f == 0 for k, f in zip(heads, ff, strict=True))
    if arch in HYBRID_BY_INTERVAL:
        return tuple(not r for r in recurrent_layers(h))
    return tuple(k > 0 for k in heads)


def is_latent(h: Hparams) -> bool:
    """True when the cache holds one compressed row (both ``_mla`` sizes are in the file)."""
    return h.integer("attention.key_length_mla") > 0 and h.integer("attention.value_length_mla") > 0


def attention_class(h: Hparams) -> AttentionClass:
    """Sort the model into the class its memory arithmetic follows; unknown architectures count as full."""
    arch = h.architecture
    if arch in NO_CACHE:
        return AttentionClass.NONE
    if arch in RECURRENT:
        return AttentionClass.RECURRENT
    if arch in SPARSE:
        return AttentionClass.SPARSE
    if any(recurrent_layers(h)):
        return AttentionClass.HYBRID
    if is_latent(h):
        return AttentionClass.LATENT
    if any(window_layers(h)):
        return AttentionClass.WINDOW
    return AttentionClass.FULL


def recurrent_dims(h: Hparams) -> RecurrentDims:
    """Sizes of the recurrent state, as stored."""
    return RecurrentDims(
        conv_kernel=h.integer("ssm.conv_kernel"),
        inner_size=h.integer("ssm.inner_size"),
        state_size=h.integer("ssm.state_size"),
        time_step_rank=h.integer("ssm.time_step_rank"),
        group_count=h.integer("ssm.group_count"),
        wkv_head_size=h.integer("wkv.head_size"),
        token_shift_count=h.integer("token_shift_count", 2 if h.architecture.startswith("rwkv") else 0),
        shortconv_l_cache=h.integer("shortconv.l_cache"),
        kda_head_dim=h.integer("kda.head_dim"),
    )

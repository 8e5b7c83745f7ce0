"""Which architecture keeps what: the families that the memory arithmetic tells apart.

Names are the engine's (``general.architecture``), as of llama.cpp b10434. Every one of them was checked by loading a
header of it with stock hyper-parameters and with odd ones, and comparing cells, layers and bytes of all caches. gptj
is the exception: the engine knows the name but no longer serves it.
"""

from typing import Final

# fmt: off
NO_CACHE: Final = frozenset({
    "bert", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "modern-bert", "neo-bert",
    "nomic-bert", "nomic-bert-moe", "dream", "llada", "llada-moe", "rnd1", "wavtokenizer-dec",
})
"""Look at their whole input at once and keep nothing."""

BOTH_WAYS: Final = frozenset({"gemma-embedding", "dream", "llada", "llada-moe", "rnd1"})
"""Attend both ways whatever ``attention.causal`` says."""

PLAIN: Final = frozenset({
    "llama", "llama-embed", "mistral3", "deci", "falcon", "grok", "gpt2", "gptj", "gptneox", "mpt",
    "baichuan", "starcoder", "starcoder2", "refact", "bloom", "stablelm", "qwen", "qwen2", "qwen2moe",
    "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "qwen3tts", "phi2", "phi3", "phimoe", "plamo",
    "codeshell", "orion", "internlm2", "minicpm", "minicpm3", "gemma", "xverse", "command-r", "dbrx",
    "olmo", "olmoe", "openelm", "arctic", "deepseek", "deepseek2-ocr", "chatglm", "glm4", "glm4moe",
    "bitnet", "t5", "t5encoder", "jais", "jais2", "nemotron", "exaone", "granite", "granitemoe",
    "chameleon", "plm", "bailingmoe", "bailingmoe2", "dots1", "arcee", "ernie4_5", "ernie4_5-moe",
    "hunyuan-moe", "hunyuan-dense", "hunyuan_vl", "hy_v3", "smollm3", "seed_oss", "grovemoe", "apertus",
    "minimax-m2", "cogvlm", "pangu-embedded", "paddleocr", "maincoder", "talkie", "pockettts", "nanbeige",
    "graniteswitch",
})
"""One ordinary cache on every layer; ``attention.sliding_window`` is ignored where it is present."""

RECURRENT: Final = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
"""All layers are recurrent and none has a KV cache."""

HYBRID_BY_HEADS: Final = frozenset({"jamba", "granitehybrid", "plamo2", "lfm2", "lfm2moe", "kimi-linear"})
"""A layer without KV heads is recurrent."""

HYBRID_BY_HEADS_AND_FF: Final = frozenset({"nemotron_h", "nemotron_h_moe"})
"""One mixer a layer: feed-forward, attention or recurrent."""

HYBRID_BY_INTERVAL: Final = frozenset({"qwen3next", "qwen35", "qwen35moe"})
"""Every ``full_attention_interval``-th layer attends, or an array says which layers do not."""

HYBRID_EVERYWHERE: Final = frozenset({"falcon-h1"})
"""Each layer has both."""

HYBRID: Final = HYBRID_BY_HEADS | HYBRID_BY_HEADS_AND_FF | HYBRID_BY_INTERVAL | HYBRID_EVERYWHERE
"""Some layers keep rows, others a constant state."""

LATENT: Final = frozenset({"deepseek2", "mistral4", "kimi-linear", "deepseek32", "glm-dsa"})
"""Keep one compressed row per token when both ``_mla`` head sizes are in the file."""

SPARSE_LATENT: Final = frozenset({"deepseek32", "glm-dsa"})
"""Have an indexer cache with keys beside it."""

SPARSE: Final = "minimax-m3"
"""Has an indexer cache with keys and values beside an ordinary one."""

COMPRESSED: Final = "deepseek4"
"""Keeps rows for every 4 and 128 tokens."""

ROUTED: Final = "graniteswitch"
"""Has one more layer, with a single KV head, that chooses adapters."""

LOOPED: Final = "nanbeige"
"""Runs through its blocks several times; each pass has rows of its own."""

NEXTN_WITHOUT_KV: Final = frozenset({
    "mimo2", "step35", "hy_v3", "deepseek32", "glm-dsa", "qwen3next", "qwen35", "qwen35moe", "deepseek4",
})
"""Their next-token-prediction blocks have no cache in the main context; elsewhere those blocks have one."""

UNGATED: Final = frozenset({
    "starcoder", "starcoder2", "gpt2", "gptneox", "gptj", "bloom", "mpt", "falcon", "phi2", "nemotron",
    "nemotron_h", "nemotron_h_moe", "codeshell", "bert", "nomic-bert-moe", "jais",
})
"""One feed-forward branch instead of a gate and a value."""
# fmt: on

GEMMA3N_OWNERS: Final = 20
"""gemma3n: the layers after the twentieth read the last owner's rows; fixed in the engine, no key."""

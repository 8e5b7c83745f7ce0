"""A model's shape: what the ``<arch>.*`` keys say, as numbers and per-layer tuples."""

from functools import cached_property
from typing import Final

from blazar_gguf import attention
from blazar_gguf.fields import ARCHITECTURE_KEY, Fields
from blazar_gguf.hparams import MAX_LOOPS, Hparams, as_int
from blazar_gguf.types import AttentionClass, PoolingType, RecurrentDims
from blazar_gguf.values import Value

TOKENS_KEY: Final = "tokenizer.ggml.tokens"


class ModelShape:
    """The part of :class:`blazar_gguf.GgufMeta` that is derived from the keys alone, without the tensors.

    Numbers that a file does not give are 0. Per-layer tuples have :attr:`layer_count` entries.

    Attributes:
        fields: key to value.
    """

    fields: Fields

    def arch(self, suffix: str, default: Value | None = None) -> Value | None:
        """The value of ``<architecture>.<suffix>``, or the default."""
        return self.fields.get(f"{self.architecture}.{suffix}", default)

    def arch_int(self, suffix: str, default: int = 0) -> int:
        """``<architecture>.<suffix>`` as a number; the largest, where the file has one per layer."""
        return self._h.integer(suffix, default)

    def per_layer(self, suffix: str, default: int = 0) -> tuple[int, ...]:
        """``<architecture>.<suffix>`` for each layer, stored as one number or as an array."""
        return self._h.per_layer(suffix, default)

    @cached_property
    def architecture(self) -> str:
        """``general.architecture``; ``""`` when it is missing or no string."""
        value = self.fields.get(ARCHITECTURE_KEY)
        return value if isinstance(value, str) else ""

    @cached_property
    def _h(self) -> Hparams:
        return Hparams(self.fields, self.architecture)

    # -- shape -------------------------------------------------------------------------------------------------

    @cached_property
    def block_count(self) -> int:
        """Number of transformer blocks stored, next-token-prediction blocks included, loops not."""
        return self._h.block_count()

    @property
    def layer_count(self) -> int:
        """Length of the per-layer tuples: ``block_count``, at most 512."""
        return self._h.layers()

    @cached_property
    def num_loops(self) -> int:
        """How often the blocks are run through, 1 to 8; multiplies layers and cache, not weights."""
        return min(max(self._h.integer("num_loops", 1), 1), MAX_LOOPS)

    @cached_property
    def context_length(self) -> int:
        """Context the model was trained for, in tokens (``ctx_train``)."""
        return self._h.integer("context_length")

    @cached_property
    def embedding_length(self) -> int:
        """Width of the residual stream, in elements."""
        return self._h.integer("embedding_length")

    @cached_property
    def vocab_size(self) -> int:
        """Number of tokens: length of the token list, else ``<arch>.vocab_size``."""
        pending = self.fields.pending_count(TOKENS_KEY)
        if pending is not None:
            return pending
        described = self.fields.find(TOKENS_KEY)
        return described.count if described is not None else self._h.integer("vocab_size")

    @cached_property
    def head_counts(self) -> tuple[int, ...]:
        """Query heads of each layer."""
        return attention.head_counts(self._h)

    @cached_property
    def head_counts_kv(self) -> tuple[int, ...]:
        """Key-value heads of each layer; 0 where a layer has none."""
        return attention.head_counts_kv(self._h)

    @cached_property
    def feed_forward_lengths(self) -> tuple[int, ...]:
        """Feed-forward width of each layer."""
        return self._h.per_layer("feed_forward_length")

    def _head_size(self, suffix: str) -> int:
        stored = self._h.integer(suffix, -1)
        if stored >= 0:
            return stored
        heads = self.head_counts[0] if self.head_counts else 0
        return self.embedding_length // heads if heads else 0

    @cached_property
    def key_length(self) -> int:
        """Elements of one key head: the key, else ``embedding_length / head_count[0]``."""
        return self._head_size("attention.key_length")

    @cached_property
    def value_length(self) -> int:
        """Elements of one value head: the key, else ``embedding_length / head_count[0]``."""
        return self._head_size("attention.value_length")

    @property
    def key_length_swa(self) -> int:
        """Elements of one key head in sliding-window layers."""
        return self._h.integer("attention.key_length_swa", self.key_length)

    @property
    def value_length_swa(self) -> int:
        """Elements of one value head in sliding-window layers."""
        return self._h.integer("attention.value_length_swa", self.value_length)

    # -- attention ---------------------------------------------------------------------------------------------

    @cached_property
    def attention_class(self) -> AttentionClass:
        """The class the memory arithmetic follows."""
        return attention.attention_class(self._h)

    @cached_property
    def sliding_window(self) -> int:
        """Window the engine applies, in tokens; 0 when no layer slides or the architecture ignores the key."""
        return attention.window_tokens(self._h)

    @property
    def sliding_window_pattern(self) -> int | tuple[bool, ...] | None:
        """``sliding_window_pattern`` as stored: a period, one flag per layer, or None."""
        value = self._h.get("attention.sliding_window_pattern")
        return tuple(bool(v) for v in value) if isinstance(value, tuple) else as_int(value)

    @cached_property
    def window_layers(self) -> tuple[bool, ...]:
        """For each layer, True when it keeps only :attr:`sliding_window` tokens."""
        return attention.window_layers(self._h)

    @cached_property
    def recurrent_layers(self) -> tuple[bool, ...]:
        """For each layer, True when it carries a constant state."""
        return attention.recurrent_layers(self._h)

    @cached_property
    def kv_layers(self) -> tuple[bool, ...]:
        """For each layer, True when it has key-value rows."""
        return attention.kv_layers(self._h)

    @cached_property
    def recurrent_dims(self) -> RecurrentDims:
        """Sizes of the recurrent state."""
        return attention.recurrent_dims(self._h)

    @property
    def is_latent(self) -> bool:
        """True when the cache holds one compressed row per token (MLA with both ``_mla`` sizes)."""
        return attention.is_latent(self._h)

    @property
    def kv_lora_rank(self) -> int:
        """Rank of the compressed key-value row (MLA)."""
        return self._h.integer("attention.kv_lora_rank")

    @property
    def q_lora_rank(self) -> int:
        """Rank of the compressed query (MLA)."""
        return self._h.integer("attention.q_lora_rank")

    @property
    def expert_count(self) -> int:
        """Experts of a mixture; 0 for a dense model."""
        return self._h.integer("expert_count")

    @property
    def expert_used_count(self) -> int:
        """Experts used for each token."""
        return self._h.integer("expert_used_count")

    @property
    def nextn_predict_layers(self) -> int:
        """Trailing blocks that predict further tokens."""
        return self._h.integer("nextn_predict_layers")

    @cached_property
    def pooling_type(self) -> PoolingType | None:
        """How an embedder pools; None when the file names no (known) pooling."""
        value = as_int(self._h.get("pooling_type"))
        return PoolingType(value) if value is not None and 0 <= value <= PoolingType.RANK else None

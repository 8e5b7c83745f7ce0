"""What a GGUF file says about itself: the object everything else is asked through."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Self

from blazar_gguf import attention, labels, modality
from blazar_gguf.fields import ARCHITECTURE_KEY, Fields, make_fields
from blazar_gguf.hparams import MAX_LOOPS, Hparams, as_int, odd_types
from blazar_gguf.layout import DEFAULT_ALIGNMENT, Layout, lay_out
from blazar_gguf.templates import chat_templates
from blazar_gguf.tensors import TensorInfo
from blazar_gguf.types import AttentionClass, FileKind, Modalities, PoolingType, RecurrentDims
from blazar_gguf.values import Value
from blazar_gguf.walk import Walk

TOKENS_KEY: Final = "tokenizer.ggml.tokens"


@dataclass(frozen=True, eq=False, repr=False)
class GgufMeta:
    """The header of one GGUF file; weights are never read.

    Properties are computed when asked for and kept. Numbers that a file does not give are 0, texts ``""``.
    On a peeked header (:attr:`complete` is False) properties that need the rest read it when asked for, and then
    may raise :class:`blazar_gguf.GgufError`.

    Attributes:
        fields: key to value, in file order; see :class:`blazar_gguf.fields.Fields`.
        version: 1, 2 or 3.
        big_endian: True when numbers are stored most significant byte first.
        path: path or URL the header came from; None for buffers and made-up metadata.
        file_bytes: size of the file; 0 for made-up metadata.
    """

    fields: Fields
    version: int = 3
    big_endian: bool = False
    path: str | None = None
    file_bytes: int = 0
    _walk: Walk | None = None
    _made: Layout | None = field(default=None)

    @classmethod
    def from_fields(
        cls, values: Mapping[str, object], tensors: Iterable[TensorInfo] = (), *, path: str | None = None
    ) -> Self:
        """Build metadata from plain values, for estimators and tests.

        Args:
            values: full keys (``llama.block_count``) to int, float, bool, str or lists of those. When
                ``general.architecture`` is not among them it is taken from the prefix of ``*.block_count``.
            tensors: tensor infos, if sizes matter.
            path: file name to pretend, for labels and shard names.

        Raises:
            TypeError: a value has no GGUF type.
        """
        values = dict(values)
        if ARCHITECTURE_KEY not in values:
            named = [key.removesuffix(".block_count") for key in values if key.endswith(".block_count")]
            if named:
                values = {ARCHITECTURE_KEY: named[0], **values}
        fields = make_fields(values)
        listed = tuple(tensors)
        span = max((t.offset + t.n_bytes for t in listed), default=0)
        made = lay_out(fields.known, listed, infos_offset=0, header_bytes=0, file_bytes=span)
        return cls(fields, path=path, _made=made)

    @classmethod
    def from_walk(cls, walk: Walk) -> Self:
        """Wrap a header that is being read or has been read."""
        source = walk.source
        return cls(Fields(walk), walk.version, walk.order == ">", source.name or None, source.size, walk)

    def __repr__(self) -> str:
        name = f" of {self.path}" if self.path else ""
        return f"<GgufMeta{name}: {self.architecture or 'no architecture'}, {len(self.fields.known)} keys>"

    # -- the container -----------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """False while only the front of the header has been read (see :func:`blazar_gguf.peek_header`)."""
        return self.fields.complete

    @property
    def layout(self) -> Layout:
        """Tensors, alignment and where the data lie. Reads on if needed; may then raise ``GgufError``."""
        if self._made is not None:
            return self._made
        assert self._walk is not None, "metadata is either read or made"
        self._walk.run()
        assert self._walk.layout is not None, "a walk that ran is complete"
        return self._walk.layout

    @property
    def tensors(self) -> Sequence[TensorInfo]:
        """All tensor infos of this file, in file order."""
        return self.layout.tensors

    @property
    def n_tensors(self) -> int:
        """Number of tensors, known without reading on."""
        return self._walk.n_tensors if self._walk is not None else len(self.tensors)

    @property
    def alignment(self) -> int:
        """Alignment of tensor data in bytes."""
        return self.layout.alignment if self.complete else as_int(self.get("general.alignment")) or DEFAULT_ALIGNMENT

    @property
    def data_offset(self) -> int:
        """Byte position of the data section."""
        return self.layout.data_offset

    @property
    def header_bytes(self) -> int:
        """Bytes from the start of the file to the end of the last tensor info."""
        return self.layout.header_bytes

    @property
    def missing_bytes(self) -> int:
        """Bytes of tensor data beyond the end of the file: a download that has not finished."""
        return self.layout.missing_bytes

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the file, one sentence each; the engine refuses most of these."""
        found = list(self.layout.warnings)
        if self.version == 1:
            found.append("GGUF version 1; the engine refuses it. Convert the model again")
        if self.big_endian:
            found.append("big-endian file; engines on little-endian machines refuse it")
        if not self.architecture and self.kind is FileKind.MODEL:
            found.append("general.architecture is missing; the engine refuses that")
        return (*found, *odd_types(self.fields, self.architecture))

    # -- keys --------------------------------------------------------------------------------------------------

    def get(self, key: str, default: Value | None = None) -> Value | None:
        """The value of a key, or the default."""
        return self.fields.get(key, default)

    def arch(self, suffix: str, default: Value | None = None) -> Value | None:
        """The value of ``<architecture>.<suffix>``, or the default."""
        return self.fields.get(f"{self.architecture}.{suffix}", default)

    def arch_int(self, suffix: str, default: int = 0) -> int:
        """``<architecture>.<suffix>`` as a number; the largest, where the file has one per layer."""
        return self._h.integer(suffix, default)

    def per_layer(self, suffix: str, default: int = 0) -> tuple[int, ...]:
        """``<architecture>.<suffix>`` for each layer, stored as one number or as an array."""
        return self._h.per_layer(suffix, default)

    def text(self, key: str) -> str:
        """The value of a string key, or ``""``."""
        value = self.fields.get(key)
        return value if isinstance(value, str) else ""

    @cached_property
    def architecture(self) -> str:
        """``general.architecture``; ``""`` when it is missing or no string."""
        return self.text(ARCHITECTURE_KEY)

    @property
    def name(self) -> str:
        """``general.name``."""
        return self.text("general.name")

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

    # -- size --------------------------------------------------------------------------------------------------

    @cached_property
    def n_params(self) -> int:
        """Elements of all tensors in this file (of a split set: :func:`blazar_gguf.resolve_shards`)."""
        return sum(t.n_elements for t in self.tensors)

    @cached_property
    def active_params(self) -> int:
        """Elements that take part in one token: experts count by the share that is used."""
        used, count = self.expert_used_count, self.expert_count
        if not count or not 0 < used < count:
            return self.n_params
        experts = sum(t.n_elements for t in self.tensors if t.is_expert)
        return self.n_params - experts + experts * used // count

    @cached_property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors' data in this file, padding not counted."""
        return sum(t.n_bytes for t in self.tensors)

    @property
    def bits_per_weight(self) -> float:
        """Average bits per parameter; 0.0 without tensors."""
        return 8 * self.tensor_bytes / self.n_params if self.n_params else 0.0

    @property
    def file_type(self) -> int | None:
        """``general.file_type`` as stored (bit 1024: guessed by the writer), or None."""
        return as_int(self.get("general.file_type"))

    @cached_property
    def quant_label(self) -> str:
        """Name of the quantisation, for display: from the file name, else the recorded type, else the tensors."""
        return labels.from_name(self.path) or labels.from_file_type(self.file_type) or labels.from_tensors(self.tensors)

    # -- use ---------------------------------------------------------------------------------------------------

    @cached_property
    def kind(self) -> FileKind:
        """What the file is for."""
        return modality.file_kind(self.fields, self.architecture)

    @property
    def is_projector(self) -> bool:
        """True for an mmproj file: it goes beside a text model and cannot be served alone."""
        return self.kind is FileKind.PROJECTOR

    @property
    def is_adapter(self) -> bool:
        """True for a LoRA: it goes on top of a base model."""
        return self.kind is FileKind.ADAPTER

    @cached_property
    def modalities(self) -> Modalities:
        """What besides text the file deals in."""
        return modality.modalities(self.fields, self.kind, self.tensors)

    @property
    def has_vision(self) -> bool:
        """True when the file encodes images."""
        return self.modalities.vision

    @property
    def has_audio(self) -> bool:
        """True when the file encodes sound."""
        return self.modalities.audio

    @cached_property
    def chat_templates(self) -> Mapping[str, str]:
        """Raw chat templates by name; the unnamed one is ``default``."""
        return chat_templates(self.fields)

    @property
    def chat_template(self) -> str:
        """The default chat template, or ``""``."""
        return self.chat_templates.get("default", "")

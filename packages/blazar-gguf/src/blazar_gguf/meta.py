"""What a GGUF file says about itself: the object everything else is asked through."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from blazar_gguf import labels, modality
from blazar_gguf.fields import ARCHITECTURE_KEY, Fields, make_fields
from blazar_gguf.hparams import as_int, odd_types
from blazar_gguf.layout import DEFAULT_ALIGNMENT, Layout, lay_out
from blazar_gguf.shape import ModelShape
from blazar_gguf.templates import chat_templates
from blazar_gguf.tensors import TensorInfo
from blazar_gguf.types import FileKind, Modalities
from blazar_gguf.values import Value
from blazar_gguf.walk import Walk


@dataclass(frozen=True, eq=False, repr=False)
class GgufMeta(ModelShape):
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

    def text(self, key: str) -> str:
        """The value of a string key, or ``""``."""
        value = self.fields.get(key)
        return value if isinstance(value, str) else ""

    @property
    def name(self) -> str:
        """``general.name``."""
        return self.text("general.name")

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

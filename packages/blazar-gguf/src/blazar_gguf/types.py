"""The nouns of a GGUF file that neighbours may hold: enums and frozen dataclasses, no behaviour."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class ValueType(IntEnum):
    """Type of a metadata value, by its number in the file (GGUF specification, ``gguf_metadata_value_type``)."""

    U8 = 0
    I8 = 1
    U16 = 2
    I16 = 3
    U32 = 4
    I32 = 5
    F32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    U64 = 10
    I64 = 11
    F64 = 12

    @property
    def label(self) -> str:
        """The short name the engine's messages use: ``u32``, ``str``, ``arr`` and so on."""
        return {8: "str", 9: "arr"}.get(self.value, self.name.lower())


class FileKind(StrEnum):
    """What a GGUF file is for, from ``general.type`` and ``general.architecture``."""

    MODEL = "model"
    PROJECTOR = "mmproj"
    ADAPTER = "adapter"
    IMATRIX = "imatrix"
    VOCABULARY = "vocab"


class AttentionClass(StrEnum):
    """How a model remembers the past; decides what its memory per token costs.

    ``FULL``: one K and V row per layer and token. ``WINDOW``: some layers keep only the last tokens.
    ``LATENT``: one compressed row per token (MLA). ``SPARSE``: full or latent plus an indexer cache.
    ``HYBRID``: some layers keep rows, others a constant state. ``RECURRENT``: constant state only.
    ``NONE``: no cache at all (encoders, diffusion language models).
    """

    FULL = "full"
    WINDOW = "window"
    LATENT = "latent"
    SPARSE = "sparse"
    HYBRID = "hybrid"
    RECURRENT = "recurrent"
    NONE = "none"


class PoolingType(IntEnum):
    """``<arch>.pooling_type``: how an embedder turns token vectors into one."""

    NONE = 0
    MEAN = 1
    CLS = 2
    LAST = 3
    RANK = 4


class Prediction(StrEnum):
    """What the engine will do with a file."""

    LOADS = "loads"
    REFUSES = "refuses"
    ABORTS = "aborts"


@dataclass(frozen=True, slots=True)
class LoadPrediction:
    """The verdict of :func:`blazar_gguf.would_load`.

    Attributes:
        outcome: loads, refuses (the engine exits with an error), or aborts (it kills its own process).
        reason: for a person, empty when it loads.
        rule: stable kebab-case name of the rule that decided, empty when it loads.
        build_specific: another build of the engine may load the file all the same: an architecture, tokenizer or
            tensor type that is newer than the rules, or one that a fork adds. Worth a try; never set for aborts.
    """

    outcome: Prediction
    reason: str = ""
    rule: str = ""
    build_specific: bool = False

    @property
    def loads(self) -> bool:
        """True when nothing is known that would stop the engine."""
        return self.outcome is Prediction.LOADS


@dataclass(frozen=True, slots=True)
class RecurrentDims:
    """Sizes of the constant state of recurrent layers, in elements; 0 where the file has no such key."""

    conv_kernel: int = 0
    inner_size: int = 0
    state_size: int = 0
    time_step_rank: int = 0
    group_count: int = 0
    wkv_head_size: int = 0
    token_shift_count: int = 0
    shortconv_l_cache: int = 0
    kda_head_dim: int = 0


@dataclass(frozen=True, slots=True)
class Modalities:
    """What besides text a file deals in.

    For a projector: what it encodes. For a model: what it carries inside itself (``v.*``, ``a.*`` tensors).

    Attributes:
        vision: images can be read.
        audio: sound can be heard.
        speech: sound can be produced (``clip.gen.audio``).
        projector_type: the projector's name, e.g. ``gemma3``; empty when there is none.
    """

    vision: bool = False
    audio: bool = False
    speech: bool = False
    projector_type: str = ""

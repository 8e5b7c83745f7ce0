"""What a file is for, and what besides text it can take in."""

from collections.abc import Sequence
from typing import Final

from blazar_gguf.fields import Fields
from blazar_gguf.tensors import TensorInfo
from blazar_gguf.types import FileKind, Modalities

PROJECTOR_ARCHITECTURE: Final = "clip"
VISION_PREFIX: Final = "v."
AUDIO_PREFIX: Final = "a."
PROJECTOR_PREFIX: Final = "mm."


def file_kind(fields: Fields, architecture: str) -> FileKind:
    """Sort a file by ``general.type``; a ``clip`` architecture is a projector whatever the type says."""
    if architecture == PROJECTOR_ARCHITECTURE:
        return FileKind.PROJECTOR
    stored = fields.get("general.type")
    match stored:
        case "mmproj" | "projector":
            return FileKind.PROJECTOR
        case "adapter":
            return FileKind.ADAPTER
        case "imatrix":
            return FileKind.IMATRIX
        case "vocab":
            return FileKind.VOCABULARY
        case _:
            return FileKind.ADAPTER if "adapter.type" in fields else FileKind.MODEL


def _flag(fields: Fields, key: str) -> bool:
    return fields.get(key) is True


def _text(fields: Fields, *keys: str) -> str:
    for key in keys:
        value = fields.get(key)
        if isinstance(value, str) and value:
            return value
    return ""


def modalities(fields: Fields, kind: FileKind, tensors: Sequence[TensorInfo]) -> Modalities:
    """Read the ``clip.*`` keys of a projector, or look for encoder tensors inside a text model.

    Some converters put ``v.*`` and ``mm.*`` tensors into the text model's own file.
    """
    if kind is FileKind.PROJECTOR:
        return Modalities(
            vision=_flag(fields, "clip.has_vision_encoder"),
            audio=_flag(fields, "clip.has_audio_encoder"),
            speech=any(key.startswith("clip.gen.audio.") for key in fields),
            projector_type=_text(
                fields, "clip.projector_type", "clip.vision.projector_type", "clip.audio.projector_type"
            ),
        )
    if kind is not FileKind.MODEL:
        return Modalities()
    return Modalities(
        vision=any(t.name.startswith(VISION_PREFIX) for t in tensors),
        audio=any(t.name.startswith(AUDIO_PREFIX) for t in tensors),
    )


def is_encoder_tensor(name: str) -> bool:
    """True for tensors of a vision or audio encoder, or of the projector that feeds a text model from them."""
    return name.startswith((VISION_PREFIX, AUDIO_PREFIX, PROJECTOR_PREFIX))

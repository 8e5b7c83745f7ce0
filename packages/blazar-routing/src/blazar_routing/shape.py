"""The shape of a model's files, as far as the choice of an engine depends on it."""

import re
from dataclasses import dataclass
from enum import StrEnum

QUANTIZED_SAFETENSORS_TOKENS = ("awq", "gptq", "fp8")
"""Words in a name, repository or path that tell quantized safetensors.

The quant column of a row is never asked: pulls of AWQ weights record "4BIT" there, and FP8 ones "BF16".
"""


class ShardFormat(StrEnum):
    """The container of the weights."""

    GGUF = "gguf"
    SAFETENSORS = "safetensors"
    QUANTIZED_SAFETENSORS = "quantized safetensors"
    MLX = "mlx"

    @classmethod
    def detect(cls, *, is_dir: bool, quantized: bool, mlx: bool) -> "ShardFormat":
        """Fold the facts about a model's path into its format; the order of the questions matters.

        MLX is asked first: an MLX directory is shaped like quantized safetensors, but only mlx-lm decodes it.

        Args:
            is_dir: The row is safetensors: a directory, or a lone file that is not GGUF.
            quantized: :func:`is_quantized_safetensors` said so.
            mlx: The directory carries MLX's marks.
        """
        if mlx and is_dir:
            return cls.MLX
        if quantized:
            return cls.QUANTIZED_SAFETENSORS
        return cls.SAFETENSORS if is_dir else cls.GGUF


@dataclass(frozen=True, slots=True)
class FormatShape:
    """What a model is, for routing.

    Attributes:
        shards: The container of the weights.
        diffusion: The row is a set of flag-keyed components (``--vae`` and the like).
        audio: The row transcribes (whisper); it serves audio surfaces only.
    """

    shards: ShardFormat
    diffusion: bool = False
    audio: bool = False

    def __str__(self) -> str:
        if self.diffusion:
            return "a set of diffusion components"
        if self.audio:
            return "a whisper model"
        match self.shards:
            case ShardFormat.GGUF:
                return "a GGUF file"
            case ShardFormat.SAFETENSORS:
                return "a safetensors directory"
            case ShardFormat.QUANTIZED_SAFETENSORS:
                return "a directory of quantized safetensors (AWQ, GPTQ or FP8)"
            case ShardFormat.MLX:
                return "an MLX directory"


def is_quantized_safetensors(*, name: str, repository: str, path: str) -> bool:
    """Return whether any word of the name, repository or path says AWQ, GPTQ or FP8.

    Words are split at everything that is not a letter or a digit, so that ``hawk`` stays clean; a ``.gguf`` path
    never matches.
    """
    if path.lower().endswith(".gguf"):
        return False
    words = re.split(r"[^a-z0-9]+", f"{name} {repository} {path}".lower())
    return any(word in QUANTIZED_SAFETENSORS_TOKENS for word in words)

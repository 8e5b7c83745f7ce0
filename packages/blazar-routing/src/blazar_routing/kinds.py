"""The engine kinds, and the word that names each."""

from enum import StrEnum

from blazar_routing.errors import UnknownEngineKind


class EngineKind(StrEnum):
    """A family of engine binaries that Blazar can drive."""

    LLAMACPP = "llamacpp"
    MISTRALRS = "mistralrs"
    SGLANG = "sglang"
    SDCPP = "sdcpp"
    WHISPER = "whisper"
    MLX = "mlx"

    @classmethod
    def parse(cls, word: str) -> "EngineKind":
        """Return the kind that ``word`` names.

        Raises:
            UnknownEngineKind: It names none; the text lists those there are.
        """
        try:
            return cls(word)
        except ValueError:
            raise UnknownEngineKind(given=word) from None

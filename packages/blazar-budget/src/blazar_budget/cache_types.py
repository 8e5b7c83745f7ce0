"""The nine types a KV cache can have, with their true block sizes.

Source: llama.cpp b10434, the types that ``-ctk`` and ``-ctv`` accept and ggml's type traits. The daemon's documented
short-cuts (q8_0 = half, q4_0 = a quarter of f16) are in :mod:`blazar_budget.contract`; they are 6 and 11 % too low.
"""

from enum import StrEnum

from blazar_budget.errors import UnknownCacheType


class CacheType(StrEnum):
    """Element type of a K or V cache, by the engine's name."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    Q8_0 = "q8_0"
    Q4_0 = "q4_0"
    Q4_1 = "q4_1"
    IQ4_NL = "iq4_nl"
    Q5_0 = "q5_0"
    Q5_1 = "q5_1"

    @property
    def block(self) -> int:
        """Elements in one block."""
        return _BLOCKS[self][0]

    @property
    def block_bytes(self) -> int:
        """Bytes of one block."""
        return _BLOCKS[self][1]

    @property
    def is_quantised(self) -> bool:
        """True for the types that store a scale per block."""
        return self.block > 1

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row of that many elements (whole blocks, rounded up)."""
        return -(-elements // self.block) * self.block_bytes


_BLOCKS = {
    CacheType.F32: (1, 4),
    CacheType.F16: (1, 2),
    CacheType.BF16: (1, 2),
    CacheType.Q8_0: (32, 34),
    CacheType.Q5_1: (32, 24),
    CacheType.Q5_0: (32, 22),
    CacheType.Q4_1: (32, 20),
    CacheType.Q4_0: (32, 18),
    CacheType.IQ4_NL: (32, 18),
}


def cache_type(name: str) -> CacheType:
    """Return the type of that name.

    Raises:
        UnknownCacheType: the engine does not accept it.
    """
    try:
        return CacheType(name.strip().lower())
    except ValueError:
        raise UnknownCacheType(cache_type=name, known=tuple(CacheType)) from None

"""The tensor types of ggml: how many bytes a block of how many elements takes.

Source: ``ggml_type`` and the type traits of ggml as of llama.cpp b10434. Numbers 4, 5, 31–33 and 36–38 belonged to
types that were removed; 43 and above are unknown to that build (forks use them for their own types).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class GgmlType:
    """One tensor type.

    Attributes:
        id: its number in a tensor info.
        name: as ggml prints it, upper case.
        block: elements in one block; the first dimension of a tensor is a multiple of it.
        bytes: size of one block in bytes.
    """

    id: int
    name: str
    block: int
    bytes: int

    @property
    def bits_per_weight(self) -> float:
        """Average bits one element takes."""
        return 8 * self.bytes / self.block


_ROWS: Final = (
    (0, "F32", 1, 4),
    (1, "F16", 1, 2),
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 36),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (24, "I8", 1, 1),
    (25, "I16", 1, 2),
    (26, "I32", 1, 4),
    (27, "I64", 1, 8),
    (28, "F64", 1, 8),
    (29, "IQ1_M", 256, 56),
    (30, "BF16", 1, 2),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
    (42, "Q2_0", 64, 18),
)

GGML_TYPES: Final[Mapping[int, GgmlType]] = MappingProxyType({row[0]: GgmlType(*row) for row in _ROWS})
"""Every known tensor type by number."""

TYPES_BY_NAME: Final[Mapping[str, GgmlType]] = MappingProxyType({t.name: t for t in GGML_TYPES.values()})
"""The same by upper-case name."""

REMOVED_TYPES: Final = frozenset({4, 5, 31, 32, 33, 36, 37, 38})
"""Numbers that once meant a type and are refused today."""

FIRST_UNKNOWN_TYPE: Final = 43
"""The first number the reference engine does not know."""


def ggml_type(type_id: int) -> GgmlType | None:
    """Return the type of that number, or None for a removed or unknown one."""
    return GGML_TYPES.get(type_id)


def bytes_of(type_id: int, elements: int) -> int | None:
    """Bytes that many elements take (whole blocks, rounded down), or None for an unknown type."""
    kind = GGML_TYPES.get(type_id)
    return None if kind is None else elements // kind.block * kind.bytes

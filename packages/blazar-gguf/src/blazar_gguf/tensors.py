"""One tensor's description: name, shape, type and place."""

from dataclasses import dataclass
from math import prod
from typing import Final

from blazar_gguf.ggml_types import GGML_TYPES, GgmlType

EXPERT_MARK: Final = "_exps."
"""In the name of every tensor that holds one slice per expert."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    r"""A tensor as the header describes it; its data is never read.

    Attributes:
        name: e.g. ``blk.0.attn_q.weight`` (undecodable bytes as ``\xNN``).
        dims: elements per dimension, fastest first (the reverse of a NumPy shape); 0 to 4 of them.
        type_id: ggml type number.
        offset: bytes from the start of the data section.
        stored_bytes: bytes up to the next tensor, for a type whose size is unknown; otherwise None.
    """

    name: str
    dims: tuple[int, ...]
    type_id: int
    offset: int
    stored_bytes: int | None = None

    @property
    def ggml_type(self) -> GgmlType | None:
        """The type's entry in the table; None for removed, foreign or future types."""
        return GGML_TYPES.get(self.type_id)

    @property
    def type_name(self) -> str:
        """The type's name, or ``type NN`` when it is unknown."""
        kind = GGML_TYPES.get(self.type_id)
        return kind.name if kind else f"type {self.type_id}"

    @property
    def n_elements(self) -> int:
        """Number of elements (1 for a tensor without dimensions)."""
        return prod(self.dims)

    @property
    def n_bytes(self) -> int:
        """Size of the data in bytes; for an unknown type what the file reserves for it."""
        kind = GGML_TYPES.get(self.type_id)
        if kind is None:
            return self.stored_bytes or 0
        return self.n_elements // kind.block * kind.bytes

    @property
    def is_expert(self) -> bool:
        """True when the tensor holds all experts of a mixture and only some of it is used per token."""
        return EXPERT_MARK in self.name

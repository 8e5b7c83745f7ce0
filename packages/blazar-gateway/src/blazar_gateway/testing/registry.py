"""A registry that keeps its rows in memory, and one that refuses."""

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from blazar_gateway.ports import ModelDetails, Overlay
from blazar_routing.errors import InvalidRequest


@dataclass
class MemoryRegistry:
    """Remembers what it was told.

    Attributes:
        found: What it says of every row.
        deleted: Rows told to go.
        copied: Source and destination of each copy.
        created: Overlays, in order.
        blobs: Uploaded files by digest.
        refusal: What it raises instead of changing anything, if not ``None``.
    """

    found: ModelDetails = field(default_factory=lambda: ModelDetails(model_info={}))
    deleted: list[str] = field(default_factory=list)
    copied: list[tuple[str, str]] = field(default_factory=list)
    created: list[Overlay] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    refusal: Exception | None = None

    async def details(self, name: str, *, verbose: bool) -> ModelDetails:  # noqa: ARG002 - the port's form
        return self.found

    async def delete(self, name: str) -> None:
        self._check()
        self.deleted.append(name)

    async def copy(self, source: str, destination: str) -> None:
        self._check()
        self.copied.append((source, destination))

    async def create(self, overlay: Overlay) -> None:
        self._check()
        self.created.append(overlay)

    def has_blob(self, digest: str) -> bool:
        return digest in self.blobs

    async def add_blob(self, digest: str, pieces: AsyncIterator[bytes]) -> None:
        content = b"".join([piece async for piece in pieces])
        found = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if found != digest:
            raise InvalidRequest(f"digest mismatch, expected {digest}, got {found}")
        self.blobs[digest] = content

    def _check(self) -> None:
        if self.refusal is not None:
            raise self.refusal

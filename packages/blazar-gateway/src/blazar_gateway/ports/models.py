"""The rows there are, and who changes them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from blazar_gateway.request_rules import NO_RULES, RequestRules
from blazar_store.types import RowOverlay


@dataclass(frozen=True, slots=True)
class ModelCard:
    """A model row as the HTTP surface shows it.

    Attributes:
        name: The row's name.
        path: The first file.
        size_bytes: Of all files together.
        digest: 64 hex digits that identify the file's content or, where no hash was taken, its identity.
        added_at: Unix seconds.
        modified_at: Unix seconds of the weights' last change.
        format: ``gguf`` or ``safetensors``.
        architecture: As the file says, ``llama``.
        parameters: A count, or ``None``.
        quantization: A label, ``Q4_K_M``, or ``""``.
        context_length: Tokens the model was trained for, or ``None``.
        capabilities: Ollama's words: ``completion``, ``tools``, ``vision``, ``thinking``, ``embedding``, ``insert``.
        engine: The kind that serves it.
        template_readable: Whether its chat template could be read. If not, what ``capabilities`` leaves out is unknown.
        overlay: What it says beyond its files; some of it is added to requests.
        aliases: Further names under which clients may ask for it.
        rules: What its owner decides about requests.
        alias_of: In listings, the row that an alias means; ``""`` for a row.
    """

    name: str
    path: str
    size_bytes: int
    digest: str
    added_at: int
    modified_at: int
    format: str
    architecture: str
    parameters: int | None
    quantization: str
    context_length: int | None
    capabilities: tuple[str, ...] = ("completion",)
    engine: str = "llamacpp"
    template_readable: bool = True
    overlay: RowOverlay = field(default=RowOverlay(), hash=False)
    aliases: tuple[str, ...] = ()
    rules: RequestRules = field(default=NO_RULES, hash=False)
    alias_of: str = ""


class Catalogue(Protocol):
    """Whoever knows the model rows; answers from memory, without blocking."""

    def find(self, name: str) -> ModelCard | None:
        """Return the row that ``name`` means, or ``None``.

        Accepts the spellings clients use: ``name:latest``, ``model:tag`` for the row ``model-tag``. Never
        invents a mapping.
        """

    def near(self, name: str) -> tuple[str, ...]:
        """Return up to three row names that resemble ``name``."""

    def cards(self) -> Sequence[ModelCard]:
        """Return every row, newest first."""


@dataclass(frozen=True, slots=True)
class ModelDetails:
    """What ``/api/show`` tells of a row besides its card.

    Attributes:
        model_info: The file's metadata under its own keys (``llama.context_length``); long arrays are ``None``
            unless they were asked for.
        template: The chat template, or ``""``.
        parameters: Request defaults of the row, by Ollama's names.
        system: The row's system prompt, or ``""``.
        license: The licence's text, or ``""``.
        messages: Turns that every conversation begins with.
        projector_info: The projector's metadata, empty without one.
        modelfile: The row as a Modelfile, or ``""`` to have one written from the rest.
        parent: What the row was made from, or ``""``.
    """

    model_info: Mapping[str, object]
    template: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    system: str = ""
    license: str = ""
    messages: Sequence[Mapping[str, str]] = ()
    projector_info: Mapping[str, object] = field(default_factory=dict)
    modelfile: str = ""
    parent: str = ""


@dataclass(frozen=True, slots=True)
class Overlay:
    """A new row that is an existing one with other defaults; no weights are copied.

    Attributes:
        name: Of the new row.
        source: The existing row's name, or ``None`` when files are given.
        files: File name to ``sha256:…`` digest of what was uploaded.
        adapters: LoRA adapters, likewise.
        template: A chat template, or ``""`` for the source's; one in Go's language is kept to be shown.
        system: A system prompt, or ``""``.
        parameters: Request defaults, by Ollama's names.
        messages: Turns that every conversation begins with.
        license: The licence's text, or ``""``.
        quantize: The type to quantise to, or ``""``.
    """

    name: str
    source: str | None
    files: Mapping[str, str] = field(default_factory=dict)
    adapters: Mapping[str, str] = field(default_factory=dict)
    template: str = ""
    system: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    messages: Sequence[Mapping[str, object]] = ()
    license: str = ""
    quantize: str = ""


class ModelRegistry(Protocol):
    """Whoever may change the model rows. Names are rows' own, resolved; what blocks runs in a thread."""

    async def details(self, name: str, *, verbose: bool) -> ModelDetails:
        """Return what the row's file says about itself.

        Raises:
            LaneError: The file cannot be read.
        """

    async def delete(self, name: str) -> None:
        """Remove a row, after its child has been unloaded; files that Blazar did not fetch stay.

        Raises:
            LaneError: It cannot be removed; the text says why.
        """

    async def copy(self, source: str, destination: str) -> None:
        """Give a row a second name, at no cost in bytes.

        Raises:
            LaneError: The name is taken or reserved.
        """

    async def create(self, overlay: Overlay) -> None:
        """Add an overlay row, or replace one of that name.

        Raises:
            LaneError: Something in it cannot be served; the text says what.
        """

    def has_blob(self, digest: str) -> bool:
        """Return whether a file with this digest (``sha256:…``) was uploaded."""

    async def add_blob(self, digest: str, pieces: AsyncIterator[bytes]) -> None:
        """Take an uploaded file, for a later :meth:`create`.

        Raises:
            LaneError: It has another digest, or this daemon takes no files.
        """

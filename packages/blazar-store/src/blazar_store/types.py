"""The rows that the store remembers, as neighbours may hold them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RowOverlay:
    """What a row says beyond its files: defaults of its requests and of its load. Empty for most rows.

    Attributes:
        source: What it was made from, as it was named then: a row or a path; ``""`` for a row that was added.
        system: The system prompt of conversations that bring none, or ``""``.
        messages: Turns that every conversation begins with, each with ``role`` and ``content``.
        parameters: By Ollama's names (``temperature``, ``stop``, ``num_ctx``), as JSON values.
        template: The chat template that was given, in whichever language, or ``""`` for the file's own.
        license: The licence's text, or ``""``.
        adapters: Absolute paths of LoRA adapters.
    """

    source: str = ""
    system: str = ""
    messages: tuple[Mapping[str, str], ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)
    template: str = ""
    license: str = ""
    adapters: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A file or directory of weights and what was read from it when it was added.

    Attributes:
        name: Unique, without ``#``.
        path: Absolute path of the first (or only) file, or of the directory.
        shards: Absolute paths of every file of a split set, the first included; one entry for a single file.
        mmproj_path: The projector that goes with it, or ``None``.
        format: ``gguf``, or what a directory holds: ``safetensors`` or ``mlx``.
        arch: ``general.architecture``, or ``model_type`` of a directory's configuration.
        params: Parameter count, or ``None``.
        quant: A label for people, never for decisions; ``""`` when unknown.
        ctx_train: Tokens the model was trained for, or ``None``.
        size_bytes: Of all its files.
        digest: 64 hex digits; of the content where it was hashed, else of path, size and modification time.
        capabilities: Ollama's words (``completion``, ``tools``, ``vision``, ``thinking``, ``embedding``, ``insert``),
            and ``rerank``.
        engine: The kind or build this row is bound to, or ``None`` for routing to decide.
        pulled: Whether Blazar fetched the files (then removing the row may remove them).
        added_at: Unix seconds.
        modified_at: Unix seconds, the newest of its files.
        template_readable: Whether its chat template could be read (having none counts); if not, what
            ``capabilities`` leaves out is unknown.
        overlay: What it says beyond its files.
        components: Of a diffusion model, the engine's flag and the file of each part (``--vae``); else empty.
    """

    name: str
    path: Path
    shards: tuple[Path, ...]
    mmproj_path: Path | None
    format: str
    arch: str
    params: int | None
    quant: str
    ctx_train: int | None
    size_bytes: int
    digest: str
    capabilities: tuple[str, ...]
    engine: str | None
    pulled: bool
    added_at: int
    modified_at: int
    template_readable: bool = True
    overlay: RowOverlay = field(default=RowOverlay(), hash=False)
    components: tuple[tuple[str, Path], ...] = ()


@dataclass(frozen=True, slots=True)
class EngineRow:
    """An installed engine build.

    Attributes:
        tag: Unique: the release tag, or ``local`` / ``local-2`` for a user's own binary.
        kind: ``llamacpp``, ``mistralrs``, ``sglang``, ``sdcpp``, ``whisper`` or ``mlx``.
        server_path: Absolute path of the server binary. In the database, in-tree paths are relative to the data
            directory, so that it can move; decoding anchors them.
        local: Whether it is the user's own binary (the *local* lane).
        version: What ``--version`` said, or ``""``.
        commit: The commit that it was built from, or ``""``.
        active: Whether it is the build of its kind that new loads use. Exactly one row of a kind is.
        installed_at: Unix seconds.
    """

    tag: str
    kind: str
    server_path: Path
    local: bool
    version: str
    commit: str
    active: bool
    installed_at: int


@dataclass(frozen=True, slots=True)
class LanePin:
    """The build that serves a model because an earlier one did not know its architecture.

    Attributes:
        model: The row's name.
        digest: The row's when it was moved: another file of that name starts afresh.
        engine: The tag of the build that knows it.
        refused_by: The tags of those that did not.
        pinned_at: Unix seconds.
    """

    model: str
    digest: str
    engine: str
    refused_by: tuple[str, ...]
    pinned_at: int


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What a key used of a model on one day.

    Attributes:
        day: UTC, ``2027-01-31``.
        key: The key's name; ``""`` for requests of an open gateway and of the owner.
        model: The row's name.
        requests: Requests that were admitted.
        prompt_tokens: As engines reported them.
        completion_tokens: Likewise; of answers that broke off, what was seen to come.
    """

    day: str
    key: str
    model: str
    requests: int
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class KeptResponse:
    """A response of OpenAI's Responses API with what a later request needs to go on from it.

    Attributes:
        id: ``resp_…``.
        created_at: Unix seconds.
        response: The object, as ``GET /v1/responses/{id}`` shows it.
        items: The request's own input items, oldest first, each with an ``id``.
        previous: The id of the response that it continues, or ``None``.
    """

    id: str
    created_at: int
    response: Mapping[str, object]
    items: Sequence[Mapping[str, object]]
    previous: str | None = None

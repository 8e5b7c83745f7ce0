"""Reading an Ollama store: which models it holds and which blobs they are made of. Nothing in it is changed.

The layout, as Ollama writes it: ``manifests/<host>/<namespace>/<model>/<tag>`` are JSON files whose ``layers`` have a
``mediaType`` and a ``digest`` (``sha256:<hex>``); the bytes are in ``blobs/sha256-<hex>``.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from blazar_cli.modelfile.parameters import PARAMETERS, Effect, check_value
from blazar_routing.errors import InvalidRequest
from blazar_store.types import RowOverlay

_MEDIA = "application/vnd.ollama.image."
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_OWN_HOST = "registry.ollama.ai"
_LARGEST_TEXT = 4 << 20


@dataclass(frozen=True, slots=True)
class StoredModel:
    """A model of the store.

    Attributes:
        name: As Ollama lists it: ``llama3.2:3b``, ``someone/model:tag``, ``hf.co/owner/repo:Q4_K_M``.
        weights: The blob that is the model.
        sha256: Of it; Ollama names blobs by their hash.
        projector: The blob that is its projector, or ``None``.
        parameters: What it was made with (``num_ctx``, ``stop``, …).
        system: Its system prompt, or ``""``.
        template: Its prompt template, in Go's language, or ``""``.
        license: Its licences' text, or ``""``.
        messages: The turns that its conversations begin with.
        adapters: The blobs that are LoRA adapters.
    """

    name: str
    weights: Path
    sha256: str
    projector: Path | None
    parameters: Mapping[str, object]
    system: str
    template: str
    license: str
    messages: tuple[Mapping[str, str], ...]
    adapters: tuple[Path, ...]


def read_ollama_store(directory: Path) -> Iterator[StoredModel]:
    """Yield the models of a store whose weights are there, sorted by name. Blocks.

    Args:
        directory: The one that holds ``manifests`` and ``blobs``.
    """
    manifests = directory / "manifests"
    for path in sorted(manifests.glob("*/*/*/*")):
        found = _read_manifest(path, directory / "blobs")
        if found is not None:
            yield found


def overlay_of_stored(model: StoredModel) -> tuple[RowOverlay, tuple[str, ...]]:
    """Return what a stored model says beyond its files as a row says it, and what has no effect here, in words."""
    left_out: list[str] = []
    parameters: dict[str, object] = {}
    for name, value in model.parameters.items():
        try:
            parameters[name] = check_value(name, value)
        except InvalidRequest:
            left_out.append(f"{name} = {value}")
            continue
        if PARAMETERS[name].effect is Effect.NONE:
            left_out.append(f"{name} = {value} (kept for `blazar show`)")
    overlay = RowOverlay(
        system=model.system,
        template=model.template,
        license=model.license,
        parameters=parameters,
        messages=tuple(turn for turn in model.messages if turn["role"] in {"system", "user", "assistant"}),
        adapters=model.adapters,
    )
    return overlay, tuple(left_out)


def _read_manifest(path: Path, blobs: Path) -> StoredModel | None:
    try:
        layers = json.loads(path.read_bytes())["layers"]
        by_kind: dict[str, list[Path]] = {}
        for layer in layers:
            match = _DIGEST.fullmatch(layer["digest"])
            if match is not None:
                kind = str(layer["mediaType"]).removeprefix(_MEDIA)
                by_kind.setdefault(kind, []).append(blobs / f"sha256-{match[1]}")
    except (OSError, ValueError, KeyError, TypeError):
        return None
    weights = [blob for blob in by_kind.get("model", []) if blob.is_file()]
    if not weights:
        # A model of Ollama's cloud, or one whose download never ended.
        return None
    projectors = [blob for blob in by_kind.get("projector", []) if blob.is_file()]
    return StoredModel(
        name=_name_of(path),
        weights=weights[0],
        sha256=weights[0].name.removeprefix("sha256-"),
        projector=projectors[0] if projectors else None,
        parameters=_parameters(by_kind.get("params", [])),
        system=_text(by_kind.get("system", [])),
        template=_text(by_kind.get("template", [])),
        license="\n".join(filter(None, (_text([blob]).strip() for blob in by_kind.get("license", [])))),
        messages=_messages(by_kind.get("messages", [])),
        adapters=tuple(blob for blob in by_kind.get("adapter", []) if blob.is_file()),
    )


def _name_of(path: Path) -> str:
    host, namespace, model, tag = path.parts[-4:]
    if host != _OWN_HOST:
        return f"{host}/{namespace}/{model}:{tag}"
    return f"{model}:{tag}" if namespace == "library" else f"{namespace}/{model}:{tag}"


def _parameters(blobs: list[Path]) -> Mapping[str, object]:
    try:
        value = json.loads(_text(blobs) or "{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _messages(blobs: list[Path]) -> tuple[Mapping[str, str], ...]:
    try:
        value = json.loads(_text(blobs) or "[]")
    except ValueError:
        return ()
    if not isinstance(value, list):
        return ()
    turns = (turn for turn in value if isinstance(turn, dict))
    return tuple({"role": str(turn.get("role")), "content": str(turn.get("content") or "")} for turn in turns)


def _text(blobs: list[Path]) -> str:
    try:
        if not blobs or blobs[0].stat().st_size > _LARGEST_TEXT:
            return ""
        return blobs[0].read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

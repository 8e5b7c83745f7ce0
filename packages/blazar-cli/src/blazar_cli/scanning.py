"""Finding models in a directory: split sets once, projectors with the model beside them, nothing else as a model."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from blazar_gguf import FileKind, GgufError, parse_shard_name, read_metadata_file
from blazar_store.types import ModelRow


def find_model_files(directory: Path) -> Iterator[tuple[Path, Path | None]]:
    """Yield each model below a directory with the one projector beside it, or ``None``. Blocks; sorted.

    Downloads in progress and hidden files are passed over, and so is what is no model: adapters, projectors,
    importance matrices, vocabularies, damaged files.
    """
    for folder, _, names in sorted(os.walk(directory, followlinks=True)):
        paths = [Path(folder) / name for name in sorted(names) if name.lower().endswith(".gguf") and name[0] != "."]
        kinds = {path: _kind(path) for path in paths if _is_first(path)}
        projectors = [path for path, kind in kinds.items() if kind is FileKind.PROJECTOR]
        for path, kind in kinds.items():
            if kind is FileKind.MODEL:
                yield path, projectors[0] if len(projectors) == 1 else None


def is_registered(path: Path, rows: Iterable[ModelRow]) -> bool:
    """Return whether a file is one of a row's, under this name or another: aliases are hard links."""
    try:
        found = path.stat()
    except OSError:
        return False
    return any(_same_file(shard, found) for row in rows for shard in row.shards)


def _same_file(path: Path, found: os.stat_result) -> bool:
    try:
        return os.path.samestat(path.stat(), found)
    except OSError:
        return False


def known_directories(environ: Mapping[str, str], home: Path) -> tuple[Path, ...]:
    """Return where LM Studio and the Hugging Face libraries keep models, as far as it exists.

    Ollama's store has names of its own: ``blazar import ollama``.
    """
    hub = environ.get("HF_HUB_CACHE") or environ.get("HUGGINGFACE_HUB_CACHE")
    root = environ.get("HF_HOME")
    cache = Path(hub) if hub else (Path(root) if root else home / ".cache" / "huggingface") / "hub"
    return tuple(path for path in (home / ".lmstudio" / "models", cache) if path.is_dir())


def _is_first(path: Path) -> bool:
    part = parse_shard_name(path.name)
    return part is None or part.number == 1


def _kind(path: Path) -> FileKind | None:
    try:
        return read_metadata_file(path).kind
    except (GgufError, OSError):
        return None

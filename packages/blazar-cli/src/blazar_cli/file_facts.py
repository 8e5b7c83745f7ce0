"""What a model's file says about itself, as ``/api/show`` tells it. Blocks: a header takes tens of milliseconds."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from blazar_gguf import GgufError, GgufMeta, LazyArray, read_metadata_file
from blazar_store.settings_watch import FileStamp, file_stamp
from blazar_supervisor.residency.model_files import unreadable

_TEMPLATES = "tokenizer.chat_template"
_SHORT = 64
"""Arrays up to this length are told without being asked for: kinds of layers, sections; not vocabularies."""


def file_facts(path: Path, *, verbose: bool) -> tuple[Mapping[str, object], str]:
    """Return a file's metadata under its own keys, and its chat template (``""`` without one).

    Args:
        path: The model's first file, or a projector.
        verbose: Whether long arrays are wanted; else they are ``None``.

    Raises:
        ModelUnreadable: It cannot be read.
    """
    stamp = file_stamp(path)
    return _read(path, verbose=True) if verbose else _remembered(path, stamp)


@lru_cache(maxsize=64)
def _remembered(path: Path, _stamp: FileStamp | None) -> tuple[Mapping[str, object], str]:
    # Clients ask before each request: litellm does. The stamp is part of what it is remembered by.
    return _read(path, verbose=False)


def _read(path: Path, *, verbose: bool) -> tuple[Mapping[str, object], str]:
    try:
        meta = read_metadata_file(path)
        return _info(meta, verbose=verbose), meta.chat_template
    except GgufError as error:
        raise unreadable(path, error) from error


def _info(meta: GgufMeta, *, verbose: bool) -> dict[str, object]:
    info: dict[str, object] = {}
    for key, value in meta.fields.items():
        if key == _TEMPLATES or key.startswith(f"{_TEMPLATES}."):
            continue  # told as the template
        if isinstance(value, LazyArray | tuple | list):
            wanted = verbose or (len(value) <= _SHORT and not key.startswith("tokenizer."))
            info[key] = list(value) if wanted else None
        else:
            info[key] = value
    if meta.n_params:
        info["general.parameter_count"] = meta.n_params
    return info

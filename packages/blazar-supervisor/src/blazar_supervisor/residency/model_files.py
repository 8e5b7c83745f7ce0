"""Is the model there, and would the engine survive it? Blocks; called in a thread."""

import os
import re
from pathlib import Path

from blazar_gguf import FileKind, GgufError, GgufMeta, Prediction, read_metadata_file, would_load
from blazar_routing.errors import ModelFileMissing, ModelUnreadable
from blazar_store.types import ModelRow


def read_model(row: ModelRow) -> tuple[GgufMeta, ...]:
    """Return the headers of a model's files, the first first, once all of them are known to be there.

    Raises:
        ModelFileMissing: A file is gone.
        ModelUnreadable: The header is broken, the file is no model, or the engine would abort on it.
    """
    paths = row.shards or (row.path,)
    for path in paths:
        _require_file(row, path)
    first = _header(row.path)
    prediction = would_load(first)
    if prediction.outcome is Prediction.ABORTS or first.kind is not FileKind.MODEL:
        # An engine that aborts leaves nothing but a crash to explain; what it merely refuses, it explains itself.
        raise ModelUnreadable(path=str(row.path), reason=prediction.reason)
    return (first, *(_header(path) for path in paths if path != row.path))


def _header(path: Path) -> GgufMeta:
    try:
        return read_metadata_file(path)
    except GgufError as error:
        raise unreadable(path, error) from error


def unreadable(path: str | os.PathLike[str], error: GgufError) -> ModelUnreadable:
    """Return what is said of a file that cannot be read, with the one piece of advice that fits.

    Args:
        path: The file, or its address.
        error: What its reader said.
    """
    text, advice = error.text.rstrip("."), None
    if (match := _ADVICE.search(text)) is not None:
        # That a download may be incomplete is what every such refusal says already, and how to tell.
        advice = None if match["verb"] in {"Download", "Fetch"} else f"{match['advice']}."
        text = text[: match.start()]
    at = f" (at byte {error.offset:,})" if error.offset is not None else ""
    return ModelUnreadable(path=os.fspath(path), reason=f"{text}{at}", advice=advice)


_ADVICE = re.compile(r"\. (?P<advice>(?P<verb>Check|Convert|Download|Fetch|Give|Read|Rename|Update) .*)$")


def _require_file(row: ModelRow, path: Path) -> None:
    if not path.exists():
        raise ModelFileMissing(model=row.name, path=str(path))

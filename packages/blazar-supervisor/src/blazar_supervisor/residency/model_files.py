"""Is the model there, and would the engine survive it? Blocks; called in a thread."""

from pathlib import Path

from blazar_gguf import FileKind, GgufError, GgufMeta, Prediction, read_metadata_file, would_load
from blazar_routing.errors import ModelFileMissing, ModelUnreadable
from blazar_store.types import ModelRow


def read_model(row: ModelRow) -> GgufMeta:
    """Return the header of a model's first file, once all of its files are known to be there.

    Raises:
        ModelFileMissing: A file is gone.
        ModelUnreadable: The header is broken, the file is no model, or the engine would abort on it.
    """
    for path in row.shards or (row.path,):
        _require_file(row, path)
    try:
        meta = read_metadata_file(row.path)
    except GgufError as error:
        raise ModelUnreadable(path=str(row.path), reason=str(error).removeprefix(f"{row.path}: ")) from error
    prediction = would_load(meta)
    if prediction.outcome is Prediction.ABORTS or meta.kind is not FileKind.MODEL:
        # An engine that aborts leaves nothing but a crash to explain; what it merely refuses, it explains itself.
        raise ModelUnreadable(path=str(row.path), reason=prediction.reason)
    return meta


def _require_file(row: ModelRow, path: Path) -> None:
    if not path.exists():
        raise ModelFileMissing(model=row.name, path=str(path))

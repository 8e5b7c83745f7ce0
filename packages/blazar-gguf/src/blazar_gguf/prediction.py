"""Will the engine load this file? Answered without starting it.

:func:`would_load` knows which files llama-server refuses and, more important, which make it abort: those are never
spawned.
"""

import os

from blazar_gguf.errors import GgufError
from blazar_gguf.hparams import MAX_LAYERS, as_int
from blazar_gguf.meta import GgufMeta
from blazar_gguf.reader import read_metadata_file
from blazar_gguf.types import FileKind, LoadPrediction, Prediction

LOADS = LoadPrediction(Prediction.LOADS)


def would_load(meta: GgufMeta) -> LoadPrediction:
    """Predict what the engine does with a file whose header could be read.

    Never raises for an odd file; reads no tensor data and spawns nothing.
    """
    layers = as_int(meta.arch("block_count"))
    if layers is not None and not 0 < layers <= MAX_LAYERS:
        return LoadPrediction(
            Prediction.ABORTS,
            f"block_count is {layers}; the engine aborts unless it is 1 to {MAX_LAYERS}",
            "block-count",
        )
    if meta.kind is not FileKind.MODEL:
        return LoadPrediction(Prediction.REFUSES, f"this is a file of kind {meta.kind}, not a model", "file-kind")
    if meta.warnings:
        return LoadPrediction(Prediction.REFUSES, meta.warnings[0], "odd-header")
    return LOADS


def would_load_file(path: str | os.PathLike[str]) -> LoadPrediction:
    """The same for a path: a file whose header cannot be read is refused."""
    try:
        meta = read_metadata_file(path)
    except GgufError as error:
        return LoadPrediction(Prediction.REFUSES, str(error), error.code)
    return would_load(meta)

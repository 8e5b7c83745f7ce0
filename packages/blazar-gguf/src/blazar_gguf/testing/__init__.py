"""For tests of whatever reads or serves GGUF files: tiny real models, and files that are damaged in known ways."""

from blazar_gguf.testing.exercise import exercise_header, exercise_template
from blazar_gguf.testing.mutants import mutants
from blazar_gguf.testing.odd import ODD_FILES, OddFile, odd_file
from blazar_gguf.testing.raw import RawField, RawFile, RawTensor
from blazar_gguf.testing.tiny import (
    ARCHITECTURES,
    CHAT_TEMPLATE,
    DEFAULT_ANSWER,
    TinyShape,
    TinyVocabulary,
    tiny_model,
    tiny_vocabulary,
    write_tiny_model,
)

__all__ = [
    "ARCHITECTURES",
    "CHAT_TEMPLATE",
    "DEFAULT_ANSWER",
    "ODD_FILES",
    "OddFile",
    "RawField",
    "RawFile",
    "RawTensor",
    "TinyShape",
    "TinyVocabulary",
    "exercise_header",
    "exercise_template",
    "mutants",
    "odd_file",
    "tiny_model",
    "tiny_vocabulary",
    "write_tiny_model",
]

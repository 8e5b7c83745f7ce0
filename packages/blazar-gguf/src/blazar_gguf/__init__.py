"""Read GGUF model files: metadata, tensors, shards and chat templates, lazily and safely."""

from blazar_gguf.copying import copy_with_metadata
from blazar_gguf.encoding import Typed
from blazar_gguf.errors import (
    GgufChanged,
    GgufError,
    GgufFileUnreadable,
    GgufMalformed,
    GgufTooLarge,
    GgufTruncated,
    GgufWriteError,
    NotGguf,
    RemoteError,
    ShardMismatch,
    ShardMissing,
    UnsupportedVersion,
)
from blazar_gguf.fields import Fields
from blazar_gguf.ggml_types import GGML_TYPES, GgmlType, ggml_type
from blazar_gguf.meta import GgufMeta
from blazar_gguf.prediction import would_load, would_load_file
from blazar_gguf.reader import parse_metadata, peek_header, read_metadata_file
from blazar_gguf.shards import ShardName, ShardSet, parse_shard_name, resolve_shards, shard_name
from blazar_gguf.tensors import TensorInfo
from blazar_gguf.types import (
    AttentionClass,
    FileKind,
    LoadPrediction,
    Modalities,
    PoolingType,
    Prediction,
    RecurrentDims,
    ValueType,
)
from blazar_gguf.values import Field, LazyArray
from blazar_gguf.writer import GgufWriter

__all__ = [
    "GGML_TYPES",
    "AttentionClass",
    "Field",
    "Fields",
    "FileKind",
    "GgmlType",
    "GgufChanged",
    "GgufError",
    "GgufFileUnreadable",
    "GgufMalformed",
    "GgufMeta",
    "GgufTooLarge",
    "GgufTruncated",
    "GgufWriteError",
    "GgufWriter",
    "LazyArray",
    "LoadPrediction",
    "Modalities",
    "NotGguf",
    "PoolingType",
    "Prediction",
    "RecurrentDims",
    "RemoteError",
    "ShardMismatch",
    "ShardMissing",
    "ShardName",
    "ShardSet",
    "TensorInfo",
    "Typed",
    "UnsupportedVersion",
    "ValueType",
    "copy_with_metadata",
    "ggml_type",
    "parse_metadata",
    "parse_shard_name",
    "peek_header",
    "read_metadata_file",
    "resolve_shards",
    "shard_name",
    "would_load",
    "would_load_file",
]

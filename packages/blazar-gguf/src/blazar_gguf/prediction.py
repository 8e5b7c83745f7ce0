"""Will the engine load this file? Answered without starting it.

:func:`would_load` goes through the engine's own checks in the engine's own order (see :mod:`blazar_gguf.engine`). It
knows which files llama-server refuses and, more important, which make it abort: those must never be spawned.

The rules are those of build b10434. A newer build knows more architectures and tensor types; objections of that
sort are marked ``build_specific``.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from blazar_gguf.engine.container import check_container, check_split
from blazar_gguf.engine.context import check_context, check_early
from blazar_gguf.engine.keys import architectures, check_keys, check_scalar
from blazar_gguf.engine.objection import refusal
from blazar_gguf.engine.template_syntax import check_syntax
from blazar_gguf.engine.template_tokens import TemplateSyntaxError
from blazar_gguf.engine.tensors import check_tensors
from blazar_gguf.engine.vocabulary import check_vocabulary
from blazar_gguf.errors import GgufError
from blazar_gguf.fields import ARCHITECTURE_KEY
from blazar_gguf.hparams import as_int
from blazar_gguf.meta import GgufMeta
from blazar_gguf.reader import read_metadata_file
from blazar_gguf.shards import parse_shard_name
from blazar_gguf.templates import TEMPLATE_KEY
from blazar_gguf.types import FileKind, LoadPrediction, Prediction, ValueType

LOADS = LoadPrediction(Prediction.LOADS)


def would_load(meta: GgufMeta, parts: Sequence[GgufMeta] | None = None) -> LoadPrediction:
    """Predict what llama-server does with a model whose header could be read.

    Reads the token list and, for a split model, the headers of the other parts; no tensor data. Spawns nothing.

    Args:
        meta: the header; of a split model that of the first part.
        parts: headers of the further parts, in order; None to look for them beside ``meta.path``.

    Returns:
        The verdict. A damaged file is a verdict too, not an exception.
    """
    try:
        return _judge(meta, parts)
    except GgufError as error:
        return _unreadable(error)


def would_load_file(path: str | os.PathLike[str]) -> LoadPrediction:
    """The same for a path: a file whose header cannot be read is refused."""
    try:
        meta = read_metadata_file(path)
    except GgufError as error:
        return _unreadable(error)
    return would_load(meta)


def _unreadable(error: GgufError) -> LoadPrediction:
    return refusal(error.code, error.text)


def _judge(meta: GgufMeta, parts: Sequence[GgufMeta] | None) -> LoadPrediction:
    objection = check_container(meta)
    if objection is not None:
        return objection
    if parts is None:
        parts = _parts_beside(meta)
    objection = check_split(meta, parts) or _check_architecture(meta) or check_keys(meta) or check_vocabulary(meta)
    if objection is not None:
        return objection
    tensors = [t for m in (meta, *parts) for t in m.tensors]
    return check_early(meta) or check_tensors(meta, tensors) or check_context(meta) or _check_template(meta) or LOADS


def _parts_beside(meta: GgufMeta) -> list[GgufMeta]:
    """The further parts of a split model under the names the engine looks for; fewer when some are not there.

    Raises:
        GgufError: a part cannot be read.
    """
    count = as_int(meta.get("split.count")) or 0
    path = Path(meta.path) if meta.path else None
    name = parse_shard_name(path.name) if path is not None else None
    if path is None or name is None or count <= 1 or name.count != count or name.number != 1:
        return []
    return [read_metadata_file(path.with_name(name.part(n))) for n in range(2, count + 1)]


def _check_architecture(meta: GgufMeta) -> LoadPrediction | None:
    file_type = meta.fields.find("general.file_type")
    stored = meta.fields.find(ARCHITECTURE_KEY)
    for field, wanted in ((stored, ValueType.STRING), (file_type, ValueType.U32)):
        objection = None if field is None else check_scalar(field, wanted)
        if objection is not None:
            return objection
    match meta.kind:
        case FileKind.PROJECTOR:
            return refusal("file-kind", "this is a projector; give it beside a text model (--mmproj)")
        case FileKind.ADAPTER:
            return refusal("file-kind", "this is an adapter; give it on top of its base model (--lora)")
        case FileKind.IMATRIX:
            return refusal("file-kind", "this is an importance matrix for quantising, not a model")
        case FileKind.MODEL | FileKind.VOCABULARY:
            pass
    if meta.architecture not in architectures():
        named = f"architecture {meta.architecture!r} is unknown to the engine"
        return refusal(
            "architecture-unknown",
            named if meta.architecture else "general.architecture is missing",
            build_specific=bool(meta.architecture),
        )
    return None


def _check_template(meta: GgufMeta) -> LoadPrediction | None:
    """The default template must parse; the engine ignores a broken one for tools."""
    template = meta.get(TEMPLATE_KEY)
    if not isinstance(template, str):
        return None
    # the engine handles templates as C strings
    template = template.split("\0", 1)[0]
    if template in {"", "chatml"}:
        other = meta.get(f"{TEMPLATE_KEY}.tool_use")
        template = other.split("\0", 1)[0] if isinstance(other, str) else ""
    try:
        check_syntax(template)
    except TemplateSyntaxError as error:
        return refusal("chat-template", f"the chat template does not parse: {error}")
    return None

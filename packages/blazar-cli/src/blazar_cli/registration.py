"""Turning a path into a model row: what the file says about itself, read in place, nothing moved or copied.

Blocks on disk; a header takes milliseconds, whatever the size of the weights.
"""

import hashlib
import re
import time
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path

from blazar_cli.errors import NotAModel, PathMissing
from blazar_gguf import (
    AttentionClass,
    FileKind,
    GgufError,
    GgufMeta,
    PoolingType,
    Prediction,
    ShardSet,
    parse_shard_name,
    read_metadata_file,
    resolve_shards,
    would_load,
)
from blazar_routing.errors import ModelUnreadable
from blazar_store.overlays import load_defaults
from blazar_store.types import ModelRow
from blazar_supervisor.residency.model_files import unreadable

_TOOL_BRANCH = re.compile(r"\{[%{][^}]*\btools\b")
TEMPLATE_CAPABILITIES = frozenset({"completion", "tools", "thinking"})
"""What :func:`template_capabilities` knows; everything else a model can do does not depend on its chat template."""

_THINKING_MARKS = ("<think>", "</think>", "enable_thinking", "reasoning_content", "<|channel|>analysis")
_TEMPLATE_KEY = "tokenizer.chat_template"
_FIM_KEYS = ("tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id")

_KIND_ADVICE: dict[FileKind, tuple[str, str]] = {
    FileKind.PROJECTOR: (
        "it is a projector (mmproj), which lets a text model see or hear and cannot answer by itself",
        "Add the text model it belongs to and name this file with it: `blazar models add MODEL.gguf --mmproj {path}`.",
    ),
    FileKind.ADAPTER: (
        "it is a LoRA adapter, which changes a base model and cannot answer by itself",
        'Add the base model, and name this file in its settings: `lora = ["{path}"]`.',
    ),
    FileKind.IMATRIX: (
        "it is an importance matrix, which is used to quantise a model and holds no weights",
        "Add the model's own .gguf file.",
    ),
    FileKind.VOCABULARY: ("it holds a vocabulary only, no weights", "Add the model's own .gguf file."),
}


def describe_model(path: Path, *, name: str | None = None, mmproj: Path | None = None, force: bool = False) -> ModelRow:
    """Return the row for a GGUF file, any part of a split set, or a directory that holds exactly one model.

    Args:
        path: Relative paths are taken from the current directory.
        name: The row's name; derived from the file's when ``None``.
        mmproj: A projector that goes with the model, or ``None`` (one beside it in a directory is found).
        force: Accept a file that every engine is expected to refuse. What only some builds refuse is accepted
            anyway; what would abort the engine never.

    Raises:
        PathMissing: There is nothing at the path.
        NotAModel: It is not a file that can be served as a model.
        ModelUnreadable: It is damaged, or an engine could not load it.
    """
    given = _absolute(path)
    found, beside = _find_in(given) if given.is_dir() else (given, None)
    projector = checked_projector(mmproj) if mmproj is not None else beside
    shards = _read(found)
    _check_servable(found, shards, force=force)
    stats = [part.stat() for part in shards.paths]
    return ModelRow(
        name=name if name is not None else derive_name(found),
        path=shards.paths[0],
        shards=shards.paths,
        mmproj_path=projector,
        format="gguf",
        arch=shards.meta.architecture,
        params=shards.n_params or None,
        quant=shards.meta.quant_label,
        ctx_train=shards.meta.context_length or None,
        size_bytes=shards.total_bytes,
        digest=identity_of(shards.paths),
        capabilities=find_capabilities(shards.meta, with_projector=projector is not None),
        engine=None,
        pulled=False,
        added_at=int(time.time()),
        modified_at=int(max(stat.st_mtime for stat in stats)),
        template_readable=has_readable_template(shards.meta),
    )


def find_doubt(row: ModelRow) -> str | None:
    """Return why an engine may refuse a model that was accepted all the same, or ``None``."""
    if not is_gguf(row):
        return None
    prediction = would_load(read_metadata_file(row.path))
    return None if prediction.loads else prediction.reason


def derive_name(path: Path) -> str:
    """Return a model name for a file: lower case, no spaces, the quantisation after a dash.

    ``SmolLM2-135M-Instruct.Q4_1.gguf`` becomes ``smollm2-135m-instruct-q4_1``, which Ollama's spelling
    ``smollm2-135m-instruct:q4_1`` finds as well. The part number of a split set is left out.
    """
    part = parse_shard_name(path.name)
    stem = part.prefix if part is not None else path.name.removesuffix(".gguf")
    folded = unicodedata.normalize("NFC", stem).lower()
    dashed = re.sub(r"\.(?=(?:ud-)?(?:i?q\d|tq\d|f16|bf16|f32|mxfp4)[^.]*$)", "-", folded)
    return re.sub(r"[^\w.-]+", "-", dashed).strip("-._") or "model"


def row_capabilities(row: ModelRow) -> tuple[str, ...]:
    """Return what a row can do, a chat template of its own and its projector included.

    Raises:
        ModelUnreadable: Its file cannot be read.
    """
    if not is_gguf(row):
        return row.capabilities
    try:
        meta = read_metadata_file(row.path)
    except GgufError as error:
        raise unreadable(row.path, error) from error
    template = load_defaults(row.overlay).chat_template
    return find_capabilities(meta, with_projector=row.mmproj_path is not None, template=template)


def find_capabilities(meta: GgufMeta, *, with_projector: bool = False, template: str | None = None) -> tuple[str, ...]:
    """Return what the model can do, in Ollama's words, from its header and chat templates.

    Args:
        meta: The header.
        with_projector: Whether the row has one.
        template: A chat template that is used instead of the file's, or ``None``.
    """
    if meta.pooling_type is PoolingType.RANK:
        return ("rerank",)
    pools = meta.pooling_type not in {None, PoolingType.NONE}
    if pools or meta.attention_class is AttentionClass.NONE:
        return ("embedding",)
    templates = "\n".join(meta.chat_templates.values()) if template is None else template
    found = [*template_capabilities(templates)]
    if with_projector or meta.has_vision:
        found.append("vision")
    if any(meta.get(key) is not None for key in _FIM_KEYS):
        found.append("insert")
    return tuple(found)


def template_capabilities(template: str) -> tuple[str, ...]:
    """Return what a text model can do by its chat template."""
    found = ["completion"]
    if _TOOL_BRANCH.search(template):
        found.append("tools")
    if any(mark in template for mark in _THINKING_MARKS):
        found.append("thinking")
    return tuple(found)


def is_gguf(row: ModelRow) -> bool:
    """Return whether a row is one GGUF model, which can be read and judged before it is loaded."""
    return row.format == "gguf" and not row.components


def has_readable_template(meta: GgufMeta) -> bool:
    """Return whether what the file's chat templates hold is known: they are text, or there are none."""
    templates = meta.chat_templates
    stored = [key for key in meta.fields.known if key == _TEMPLATE_KEY or key.startswith(f"{_TEMPLATE_KEY}.")]
    # Bytes that are no UTF-8 arrive as U+FFFD: a marker may have been among them.
    return len(stored) == len(templates) and not any("\ufffd" in template for template in templates.values())


def _absolute(path: Path) -> Path:
    # Not resolved: a link may be the stable name of a file whose target changes.
    given = path.expanduser().absolute()
    if not given.exists():
        raise PathMissing(path=given)
    return given


def _find_in(directory: Path) -> tuple[Path, Path | None]:
    """Return the one model in a directory, and the one projector beside it if there is one."""
    models, projectors = _sorted_files(directory.glob("*.gguf"))
    if len(models) == 1:
        return models[0], projectors[0] if len(projectors) == 1 else None
    if models:
        names = ", ".join(model.name for model in models[:5]) + (", …" if len(models) > 5 else "")
        raise NotAModel(
            path=directory,
            reason=f"it holds {len(models)} models ({names})",
            advice=f"Name one of them: `blazar models add {models[0]}`.",
        )
    if any(directory.glob("*.safetensors")):
        raise NotAModel(
            path=directory,
            reason="it holds safetensors weights, and here a GGUF file is needed",
            advice="Fetch a GGUF conversion of the model, or make one with llama.cpp's convert_hf_to_gguf.py.",
        )
    raise NotAModel(
        path=directory, reason="it holds no .gguf file", advice="Name the model file itself, or the folder it is in."
    )


def _sorted_files(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    models: list[Path] = []
    projectors: list[Path] = []
    for path in sorted(paths):
        part = parse_shard_name(path.name)
        if part is not None and part.number != 1:
            continue
        try:
            kind = read_metadata_file(path).kind
        except GgufError:
            # It counts, so that the complaint about a directory with one damaged file is about the damage.
            kind = FileKind.MODEL
        if kind is FileKind.MODEL:
            models.append(path)
        elif kind is FileKind.PROJECTOR:
            projectors.append(path)
    return models, projectors


def _read(path: Path) -> ShardSet:
    try:
        return resolve_shards(path)
    except GgufError as error:
        raise unreadable(path, error) from error


def checked_projector(path: Path) -> Path:
    """Return a projector's absolute path.

    Raises:
        PathMissing, ModelUnreadable, NotAModel: It is none.
    """
    path = _absolute(path)
    try:
        kind = read_metadata_file(path).kind
    except GgufError as error:
        raise unreadable(path, error) from error
    if kind is not FileKind.PROJECTOR:
        raise NotAModel(
            path=path,
            reason=f"it was given as a projector, and it is a file of kind {kind}",
            advice="A projector's name usually begins with mmproj-.",
        )
    return path


def _check_servable(path: Path, shards: ShardSet, *, force: bool) -> None:
    if shards.meta.kind is not FileKind.MODEL:
        reason, advice = _KIND_ADVICE[shards.meta.kind]
        raise NotAModel(path=path, reason=reason, advice=advice.format(path=path))
    prediction = would_load(shards.meta, shards.metas[1:])
    forgiven = prediction.build_specific or (force and prediction.outcome is Prediction.REFUSES)
    if prediction.loads or forgiven:
        return
    raise ModelUnreadable(path=str(path), reason=prediction.reason.rstrip("."))


def identity_of(paths: Sequence[Path]) -> str:
    """Return 64 hex digits that differ when a file is replaced: of names, sizes and times, not of the content."""
    digest = hashlib.sha256()
    for path in paths:
        stat = path.stat()
        digest.update(f"{path}\0{stat.st_size}\0{stat.st_mtime_ns}\0".encode(errors="surrogateescape"))
    return digest.hexdigest()

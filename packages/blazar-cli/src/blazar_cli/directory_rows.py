"""Rows of models that are no single file: directories of safetensors, and the parts of diffusion models. Blocks.

Of the weights only the headers are read: eight bytes with the length of a JSON object, and that object.
"""

import json
import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blazar_cli.errors import NotAModel
from blazar_cli.registration import derive_name, identity_of, template_capabilities
from blazar_routing.errors import ModelUnreadable
from blazar_store.files import read_plain_file
from blazar_store.types import ModelRow

_LARGEST_HEADER = 100 << 20
_LARGEST_JSON = 64 << 20
_PART = re.compile(r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")
_ENDS = ("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")
_KEPT = (".json", ".txt", ".model", ".jinja", ".tiktoken")


@dataclass(frozen=True, slots=True)
class _Weights:
    """What the headers of safetensors say."""

    files: tuple[Path, ...]
    params: int
    types: frozenset[str]


def describe_directory(directory: Path, *, name: str | None = None) -> ModelRow:
    """Return the row of a directory of safetensors with its configuration.

    Raises:
        NotAModel: It lacks its configuration or a part of its weights.
        ModelUnreadable: A file in it is damaged.
    """
    directory = directory.expanduser().absolute()
    config = _json(directory / "config.json")
    if not config:
        raise NotAModel(
            path=directory,
            reason="it holds safetensors without a config.json that says what they are",
            advice="Fetch the whole repository: `blazar pull owner/repository:safetensors`.",
        )
    weights = _read_weights(directory)
    text = _mapping(config.get("text_config")) or config
    quantization = _mapping(config.get("quantization_config"))
    method = str(quantization.get("quant_method") or "").upper()
    # MLX writes its own key, without a method.
    is_mlx = bool(_mapping(config.get("quantization"))) and not method
    label = method or ("MLX" if is_mlx else "/".join(sorted(weights.types)))
    context = text.get("max_position_embeddings")
    template = _template(directory)
    files = (*weights.files, *sorted(path for path in directory.iterdir() if path.name.endswith(_KEPT)))
    stats = [path.stat() for path in files]
    return ModelRow(
        name=name if name is not None else derive_name(directory),
        path=directory,
        shards=files,
        mmproj_path=None,
        format="mlx" if is_mlx else "safetensors",
        arch=str(config.get("model_type") or ""),
        params=None if method or is_mlx else weights.params,
        quant=label,
        ctx_train=context if isinstance(context, int) else None,
        size_bytes=sum(stat.st_size for stat in stats),
        digest=identity_of(files),
        capabilities=_capabilities(template, config),
        engine=None,
        pulled=False,
        added_at=int(time.time()),
        modified_at=int(max(stat.st_mtime for stat in stats)),
        # Without one in its usual places, the engine may still have its own way of writing chats.
        template_readable=bool(template),
    )


def holds_safetensors(path: Path) -> bool:
    """Return whether a path is a directory of safetensors and of nothing that is served from one file."""
    return path.is_dir() and any(path.glob("*.safetensors")) and not any(path.glob("*.gguf"))


def describe_components(parts: Sequence[tuple[str, Path]], *, name: str) -> ModelRow:
    """Return the row of a diffusion model.

    Args:
        parts: The engine's flag and the file of each, the diffusion model first.
        name: Of the row.

    Raises:
        ModelUnreadable: A file is damaged.
    """
    files = tuple(path.absolute() for _, path in parts)
    params = sum(_read_header(path)[0] for path in files if path.suffix == ".safetensors")
    stats = [path.stat() for path in files]
    main = files[0]
    return ModelRow(
        name=name,
        path=main,
        shards=files,
        mmproj_path=None,
        format="gguf" if main.suffix.lower() == ".gguf" else "safetensors",
        arch="diffusion",
        params=params if all(path.suffix == ".safetensors" for path in files) else None,
        quant=name.rpartition(":")[2],
        ctx_train=None,
        size_bytes=sum(stat.st_size for stat in stats),
        digest=identity_of(files),
        capabilities=("image",),
        engine=None,
        pulled=False,
        added_at=int(time.time()),
        modified_at=int(max(stat.st_mtime for stat in stats)),
        components=tuple((flag, path.absolute()) for flag, path in parts),
    )


def _read_weights(directory: Path) -> _Weights:
    files = sorted(directory.glob("*.safetensors"))
    own = [path for path in files if not path.name.startswith("consolidated")] or files
    _require_parts(directory, own)
    read = [_read_header(path) for path in own]
    return _Weights(tuple(own), sum(params for params, _ in read), frozenset().union(*(types for _, types in read)))


def _require_parts(directory: Path, files: Iterable[Path]) -> None:
    index = _mapping(_json(directory / "model.safetensors.index.json").get("weight_map"))
    wanted = {str(file) for file in index.values()}
    for match in filter(None, (_PART.fullmatch(path.name) for path in files)):
        count = int(match["count"])
        wanted |= {f"{match['prefix']}-{number:05d}-of-{match['count']}.safetensors" for number in range(1, count + 1)}
    missing = sorted(wanted - {path.name for path in directory.iterdir()})
    if missing:
        raise NotAModel(
            path=directory,
            reason=f"it lacks {', '.join(missing[:5])}{', …' if len(missing) > 5 else ''}",
            advice="Fetch what is missing: the command that fetched it goes on where it stopped.",
        )


def _read_header(path: Path) -> tuple[int, frozenset[str]]:
    """Return the parameters in a file of safetensors and the types they have."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(_LARGEST_HEADER, size - 8):
            raise ModelUnreadable(path=str(path), reason="it is no safetensors file, or it ends inside its header")
        try:
            header = json.loads(file.read(length))
            tensors = [one for name, one in header.items() if name != "__metadata__"]
            end = max((int(one["data_offsets"][1]) for one in tensors), default=0)
            params = sum(math.prod(map(int, one["shape"])) for one in tensors)
            types = frozenset(str(one["dtype"]) for one in tensors)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
            raise ModelUnreadable(path=str(path), reason="its safetensors header makes no sense") from error
    lacking = 8 + length + end - size
    if lacking > 0:
        raise ModelUnreadable(path=str(path), reason=f"it ends {lacking:,} bytes before its last tensor does")
    return params, types


def _capabilities(template: str, config: Mapping[str, Any]) -> tuple[str, ...]:
    architectures = config.get("architectures")
    names = [str(name) for name in architectures] if isinstance(architectures, list) else []
    if names and not any(name.endswith(_ENDS) for name in names):
        return ("embedding",)
    found = template_capabilities(template)
    return (*found, "vision") if _mapping(config.get("vision_config")) else found


def _template(directory: Path) -> str:
    try:
        return read_plain_file(directory / "chat_template.jinja").decode(errors="replace")
    except OSError:
        template = _json(directory / "tokenizer_config.json").get("chat_template")
    if isinstance(template, list):
        return "\n".join(str(_mapping(one).get("template") or "") for one in template)
    return template if isinstance(template, str) else ""


def _json(path: Path) -> Mapping[str, Any]:
    try:
        if path.stat().st_size > _LARGEST_JSON:
            return {}
        return _mapping(json.loads(read_plain_file(path)))
    except (OSError, ValueError, RecursionError):
        return {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}

"""What a model's settings cost in memory: the launch that the budget judges, read from the same knobs as the arguments.

Blocks: files beside the model are looked at for their size, and a draft model's header is read for its cache.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from blazar_budget import HOST, BudgetError, Launch, Offload, kv_cache
from blazar_gguf import GgufError, GgufMeta, read_metadata_file
from blazar_store.settings_models import expand
from blazar_store.types import ModelRow
from blazar_supervisor.engines.llamacpp.argv import CACHE_TYPES
from blazar_supervisor.engines.llamacpp.knobs import FFN_PATTERN
from blazar_supervisor.engines.profile import Knobs

MOST_DRAFT_CTX: Final = 65_536
"""The context for which a draft model's cache is counted while the model's own is not decided yet."""

_VALUED: Final[Mapping[str, str]] = {
    "-fa": "flash", "--flash-attn": "flash",
    "-ub": "ubatch", "--ubatch-size": "ubatch",
    "-ctk": "type_k", "--cache-type-k": "type_k",
    "-ctv": "type_v", "--cache-type-v": "type_v",
    "-ngl": "layers", "--gpu-layers": "layers", "--n-gpu-layers": "layers",
    "-ncmoe": "n_cpu_moe", "--n-cpu-moe": "n_cpu_moe",
    "-ot": "overrides", "--override-tensor": "overrides",
    "-ts": "split", "--tensor-split": "split",
    "-mm": "projector", "--mmproj": "projector",
    "--lora": "adapters", "--lora-scaled": "scaled",
    "-md": "draft", "--model-draft": "draft", "--spec-draft-model": "draft",
    "--spec-type": "kinds",
}  # fmt: skip
_SWITCHES: Final[Mapping[str, str]] = {
    "-cmoe": "cpu_moe", "--cpu-moe": "cpu_moe",
    "-nkvo": "kv_on_host", "--no-kv-offload": "kv_on_host",
    "--swa-full": "swa_full",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Beside:
    """What is loaded beside the model.

    Attributes:
        file_bytes: Of projector, adapters and draft model.
        draft: The draft model's header.
        draft_type_k: Element types of its cache.
        draft_type_v: Likewise.
        slots: Requests at the same time.
    """

    file_bytes: int = 0
    draft: GgufMeta | None = None
    draft_type_k: str = "f16"
    draft_type_v: str = "f16"
    slots: int = 1

    def bytes_at(self, ctx: int) -> int:
        """Return what all of it takes at a context of ``ctx`` tokens."""
        if self.draft is None:
            return self.file_bytes
        try:
            cache = kv_cache(
                self.draft,
                ctx=ctx,
                parallel=self.slots,
                unified=self.slots > 1,
                type_k=self.draft_type_k,
                type_v=self.draft_type_v,
            )
        except BudgetError:
            return self.file_bytes  # The engine will refuse it, and say why.
        return self.file_bytes + cache.total_bytes


def launch_of(row: ModelRow, knobs: Knobs, *, ctx: int = 0, logits_bytes: int = 0) -> Launch:
    """Return the flags that cost memory.

    Args:
        row: The model.
        knobs: Its settings.
        ctx: The context; 0 while it is not known, which is filled in by the caller.
        logits_bytes: What is computed for nothing beside it.
    """
    own = dict(_read(knobs.extra_args))
    written = knobs.written
    preset = written.tensor_preset or ""
    overrides = [(FFN_PATTERN, HOST)] if preset == "ffn-cpu" else []
    overrides = list(_overrides(own["overrides"])) if "overrides" in own else overrides
    count = preset.removeprefix("cpu-moe:") if preset.startswith("cpu-moe:") else "0"
    used = tuple(own["kinds"].split(",")) if "kinds" in own else knobs.kinds
    offload = Offload(
        gpu_layers=_number(own.get("layers", knobs.gpu_layers)),
        cpu_moe="cpu_moe" in own or preset == "cpu-moe",
        n_cpu_moe=_number(own.get("n_cpu_moe", count)) or 0,
        kv_on_host="kv_on_host" in own,
        tensor_split=_split(own.get("split", "")),
        overrides=tuple(overrides),
        mtp="draft-mtp" in used,
    )
    beside = _beside(row, knobs, own, used)
    return Launch(
        ctx=ctx,
        parallel=knobs.slots,
        unified=knobs.slots > 1,
        type_k=_type(own.get("type_k"), knobs.cache_type_k),
        type_v=_type(own.get("type_v"), knobs.cache_type_v),
        flash_attn=own["flash"] if own.get("flash") in {"on", "off"} else "auto",
        ubatch=_number(own.get("ubatch")) or knobs.ubatch,
        swa_full="swa_full" in own,
        offload=offload,
        extra_device_bytes=beside.bytes_at(ctx or MOST_DRAFT_CTX) + logits_bytes,
    )


def _beside(row: ModelRow, knobs: Knobs, own: Mapping[str, str], kinds: Sequence[str]) -> Beside:
    written = knobs.written
    paths: list[Path | None] = []
    if "projector" in own:
        paths.append(Path(own["projector"]))
    elif knobs.mmproj:
        paths.append(row.mmproj_path)
    if "adapters" in own:
        paths += [Path(word) for word in own["adapters"].split(",")]
    elif "scaled" in own:
        paths += [Path(word.rpartition(":")[0]) for word in own["scaled"].split(",")]
    else:
        paths += [expand(adapter.path) for adapter in written.lora or ()]
    draft = None
    if "draft" in own:
        draft = Path(own["draft"])
    elif any(kind.startswith("draft-") and kind != "draft-mtp" for kind in kinds):
        draft = expand(written.spec_draft_model)
    paths.append(draft)
    return Beside(
        file_bytes=sum(_size(path) for path in paths),
        draft=_header(draft),
        draft_type_k=written.spec_draft_cache_type_k or "f16",
        draft_type_v=written.spec_draft_cache_type_v or "f16",
        slots=knobs.slots,
    )


def _size(path: Path | None) -> int:
    try:
        return 0 if path is None else path.stat().st_size
    except OSError:
        return 0  # Whether it is there has been checked elsewhere.


def _header(path: Path | None) -> GgufMeta | None:
    if path is None:
        return None
    try:
        return read_metadata_file(path)
    except GgufError:
        return None  # The engine will refuse it, and say why.


def _read(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield what the user's own arguments say of memory, by our word for it."""
    rest = [part for word in words for part in (word.split("=", 1) if _is_assigned(word) else [word])]
    for place, word in enumerate(rest):
        flag = word.replace("_", "-") if word.startswith("-") else word
        if flag in _SWITCHES:
            yield _SWITCHES[flag], ""
        elif flag in _VALUED and place + 1 < len(rest):
            yield _VALUED[flag], rest[place + 1]


def _is_assigned(word: str) -> bool:
    return word.startswith("--") and word.partition("=")[0].replace("_", "-") in _VALUED and "=" in word


def _overrides(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.split(","):
        pattern, _, buffer = pair.rpartition("=")
        try:
            re.compile(pattern)
        except re.error:
            continue  # Right for the engine perhaps, whose expressions are of another make.
        yield pattern, HOST if buffer.startswith("CPU") or buffer.endswith("_Host") else buffer


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _split(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in text.split(",")) if text else ()
    except ValueError:
        return ()


def _type(own: str | None, knob: str | None) -> str:
    return own if own in CACHE_TYPES else knob or "f16"

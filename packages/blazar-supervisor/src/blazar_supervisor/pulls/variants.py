"""What a repository offers: its files, sorted into things that can be served. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath

_SHARD = re.compile(r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_SAFE_PART = re.compile(r"(?P<prefix>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.safetensors")
_QUANT = re.compile(
    r"(?:^|[-._])(?P<label>(?:UD-)?(?:IQ[1-4]_[A-Z0-9]+(?:_[A-Z]+)?|Q[1-8]_[A-Z0-9]+(?:_[A-Z0-9]+)*|TQ[12]_0|MXFP4(?:_MOE)?|NVFP4|"
    r"BF16|F16|FP16|F32))(?=$|[-.])",
    re.IGNORECASE,
)
_PROJECTOR = re.compile(r"(^|[-._])mmproj([-._]|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository.

    Attributes:
        path: Within the repository, with forward slashes.
        size: Bytes.
        sha256: 64 hex digits where the hub knows them (large files), else ``None``.
    """

    path: str
    size: int
    sha256: str | None = None


class VariantKind(StrEnum):
    """What a variant is made of."""

    GGUF = "gguf"
    SAFETENSORS = "safetensors"
    DIFFUSION = "diffusion"


@dataclass(frozen=True, slots=True)
class Variant:
    """Something in a repository that can be served.

    Attributes:
        label: The quant, as people write it after the colon: ``Q4_K_M``.
        kind: What it is made of.
        files: Its files; shards in order.
        complete: Whether every shard of its set is there, and every component.
        flags: Of a diffusion model, the engine's flag for each file; else empty.
        lacks: What is missing of it, or ``""``.
    """

    label: str
    kind: VariantKind
    files: tuple[RemoteFile, ...]
    complete: bool = True
    flags: tuple[str, ...] = ()
    lacks: str = ""

    @property
    def size(self) -> int:
        """Bytes of all its files."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Offer:
    """All that a repository offers.

    Attributes:
        variants: Smallest first.
        projectors: Files that give a GGUF variant eyes or ears, the preferred one (16 bit) first.
    """

    variants: tuple[Variant, ...]
    projectors: tuple[RemoteFile, ...]


def sort_files(files: Iterable[RemoteFile]) -> Offer:
    """Sort a repository's files into what can be served.

    Split sets become one variant; projectors, importance matrices and everything else that is no model are not
    offered as one. A directory of safetensors is one variant, with its configuration and tokenizer.
    """
    known = [file for file in files if ".." not in PurePosixPath(file.path).parts]
    ggufs = [file for file in known if file.path.lower().endswith(".gguf") and not _is_side_file(file.path)]
    projectors = sorted((file for file in ggufs if _PROJECTOR.search(_name(file))), key=_projector_order)
    sets: dict[str, list[RemoteFile]] = {}
    for file in ggufs:
        if file not in projectors:
            sets.setdefault(_set_name(file), []).append(file)
    variants = [_gguf_variant(shards) for shards in sets.values()]
    if safetensors := _safetensors(known):
        variants.append(safetensors)
    return Offer(tuple(sorted(variants, key=lambda variant: (variant.size, variant.label))), tuple(projectors))


def find_variants(offer: Offer, choice: str) -> tuple[Variant, ...]:
    """Return the variants that a choice means: a file's path, or a label in any case.

    ``Q4_K_M`` prefers exactly that label and otherwise means those that end in it (``UD-Q4_K_M``).
    """
    wanted = choice.lower()
    by_path = [variant for variant in offer.variants if any(file.path.lower() == wanted for file in variant.files)]
    if by_path:
        return tuple(by_path)
    exact = [variant for variant in offer.variants if variant.label.lower() == wanted]
    if exact:
        return tuple(exact)
    by_name = [v for v in offer.variants if any(_name(file).lower() in {wanted, f"{wanted}.gguf"} for file in v.files)]
    return tuple(by_name or [v for v in offer.variants if v.label.lower().endswith(f"-{wanted}")])


def quant_label(path: str) -> str:
    """Return the quant label in a file's name, in capitals, or ``""``."""
    found = list(_QUANT.finditer(PurePosixPath(path).name.removesuffix(".gguf")))
    if not found:
        found = list(_QUANT.finditer(PurePosixPath(path).parent.name))
    return found[-1]["label"].upper() if found else ""


def _gguf_variant(shards: Sequence[RemoteFile]) -> Variant:
    match = _SHARD.fullmatch(_name(shards[0]))
    if match is None:
        return Variant(quant_label(shards[0].path) or _stem(shards[0]), VariantKind.GGUF, tuple(shards))
    ordered = sorted(shards, key=_name)
    numbers = [int(_SHARD.fullmatch(_name(file))["number"]) for file in ordered]  # type: ignore[index]  # same set
    complete = numbers == list(range(1, int(match["count"]) + 1))
    label = quant_label(match["prefix"]) or quant_label(shards[0].path) or PurePosixPath(match["prefix"]).name
    return Variant(label, VariantKind.GGUF, tuple(ordered), complete)


def _safetensors(files: Sequence[RemoteFile]) -> Variant | None:
    top = [file for file in files if "/" not in file.path]
    weights = [file for file in top if file.path.endswith(".safetensors")]
    if not weights or not any(file.path == "config.json" for file in top):
        return None
    # Some makers put their own format beside it, with the same weights once more.
    weights = [file for file in weights if not file.path.startswith("consolidated")] or weights
    lacks = _missing_parts(weights)
    wanted = (".json", ".txt", ".model", ".jinja", ".tiktoken")
    files = (*sorted(weights, key=_name), *(file for file in top if file.path.endswith(wanted)))
    return Variant("safetensors", VariantKind.SAFETENSORS, files, complete=not lacks, lacks=lacks)


def _missing_parts(weights: Sequence[RemoteFile]) -> str:
    """Return which parts of split safetensors are missing, in words, or ``""``."""
    parts = [match for file in weights if (match := _SAFE_PART.fullmatch(_name(file)))]
    for prefix, count in dict.fromkeys((part["prefix"], part["count"]) for part in parts):
        there = {int(part["number"]) for part in parts if (part["prefix"], part["count"]) == (prefix, count)}
        missing = sorted(set(range(1, int(count) + 1)) - there)
        if missing:
            return f"part {', '.join(map(str, missing[:5]))} of {int(count)}"
    return ""


def _is_side_file(path: str) -> bool:
    name = PurePosixPath(path).name.lower()
    return "imatrix" in name or "ggml-vocab" in name or name.startswith("ggml-lora")


def _set_name(file: RemoteFile) -> str:
    match = _SHARD.fullmatch(_name(file))
    folder = str(PurePosixPath(file.path).parent)
    return f"{folder}/{match['prefix']}/{match['count']}" if match else file.path


def _projector_order(file: RemoteFile) -> tuple[int, int]:
    label = quant_label(file.path)
    return ({"F16": 0, "FP16": 0, "BF16": 1}.get(label, 2), file.size)


def _name(file: RemoteFile) -> str:
    return PurePosixPath(file.path).name


def _stem(file: RemoteFile) -> str:
    return _name(file).rpartition(".")[0]

"""Diffusion models in pieces: which file of a repository goes under which flag of stable-diffusion.cpp. Pure.

An image model is a set of files: the diffusion model, a VAE, and the text encoders of its family. Repositories name
them by folder (``diffusion_models/``, ``vae/``, ``text_encoders/``) or in the file's name (``ae.safetensors``,
``clip_l``, ``t5xxl``). Nothing else is guessed at: a file without such a mark belongs to no set.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from blazar_supervisor.pulls.variants import RemoteFile, Variant, VariantKind, quant_label

DIFFUSION, VAE = "--diffusion-model", "--vae"
_ENCODERS = ("--clip_l", "--clip_g", "--t5xxl", "--llm")
_WEIGHTS = (".safetensors", ".sft", ".gguf", ".ckpt")
_PART = re.compile(r"-\d{5}-of-\d{5}\.", re.IGNORECASE)
_BY_NAME: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("--audio-vae", re.compile(r"audio[-_.]?vae")),
    (VAE, re.compile(r"(^|[-_.])(vae|ae)([-_.]|$)")),
    ("--clip_vision", re.compile(r"clip[-_.]?vision")),
    ("--clip_l", re.compile(r"(^|[-_.])clip[-_.]?l([-_.]|$)")),
    ("--clip_g", re.compile(r"(^|[-_.])clip[-_.]?g([-_.]|$)")),
    ("--t5xxl", re.compile(r"(^|[-_.])(um)?t5[-_.]?xxl([-_.]|$)")),
)
_DIFFUSION_FOLDERS = frozenset({"diffusion_models", "diffusion_model", "unet", "transformer"})
_ENCODER_FOLDERS = frozenset({"text_encoders", "text_encoder", "clip"})


def component_sets(files: Sequence[RemoteFile]) -> tuple[Variant, ...]:
    """Return a variant for each diffusion model of a repository that holds a VAE too, smallest first.

    A repository in the layout of diffusers (``model_index.json``) is none: its parts are not what the engine reads.
    """
    if any(file.path == "model_index.json" for file in files):
        return ()
    by_flag: dict[str, list[RemoteFile]] = {}
    for file in files:
        if (flag := flag_of(file.path)) is not None:
            by_flag.setdefault(flag, []).append(file)
    models = by_flag.pop(DIFFUSION, [])
    if VAE not in by_flag or not models:
        return ()
    # The encoders read the prompt and the VAE paints once: the small files of each do.
    parts = [(flag, min(found, key=lambda file: (file.size, file.path))) for flag, found in sorted(by_flag.items())]
    lacks = "" if any(flag in _ENCODERS for flag, _ in parts) else "a text encoder (--clip_l, --t5xxl or --llm)"
    return tuple(
        Variant(
            label=quant_label(model.path) or PurePosixPath(model.path).name.rpartition(".")[0],
            kind=VariantKind.DIFFUSION,
            files=(model, *(file for _, file in parts)),
            complete=not lacks,
            flags=(DIFFUSION, *(flag for flag, _ in parts)),
            lacks=lacks,
        )
        for model in sorted(models, key=lambda file: (file.size, file.path))
    )


def flag_of(path: str) -> str | None:
    """Return the flag under which a file is given to the engine, or ``None`` for one that is no component."""
    given = PurePosixPath(path.lower())
    if given.suffix not in _WEIGHTS or _PART.search(given.name):
        return None
    for flag, mark in _BY_NAME:
        if mark.search(given.stem) or (flag == VAE and given.parent.name == "vae"):
            return flag
    if given.parent.name in _ENCODER_FOLDERS:
        return "--llm_vision" if "mmproj" in given.stem or "vision" in given.stem else "--llm"
    if given.parent.name in _DIFFUSION_FOLDERS or (str(given.parent) == "." and given.suffix == ".gguf"):
        return "--high-noise-diffusion-model" if re.search(r"high[-_]?noise", given.stem) else DIFFUSION
    return None


def component_files(sets: Iterable[Variant]) -> frozenset[str]:
    """Return the paths of every file of some sets: what must not be offered as a text model."""
    return frozenset(file.path for one in sets for file in one.files)

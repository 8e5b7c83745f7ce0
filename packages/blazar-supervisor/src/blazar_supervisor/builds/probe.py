"""Is this binary an engine that Blazar can drive? It is asked three questions, each with a timeout. Blocks."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blazar_budget import ListedDevice, parse_list_devices
from blazar_routing.errors import NotAnEngine
from blazar_routing.kinds import EngineKind
from blazar_supervisor.builds.executable import foreign_format
from blazar_supervisor.engines.manifest import Manifest, parse_help
from blazar_supervisor.engines.questions import BinaryRefuses, ask_binary
from blazar_supervisor.engines.versions import BuildVersion, parse_version

QUESTION_TIMEOUT_S = 30.0
"""A broken GPU driver can hang; a working one may take seconds to come up."""

_NEEDED = ("--model", "--host", "--port", "--ctx-size", "--parallel", "--alias", "--api-key-file")
"""Without these a child cannot be driven. llama-cli has some of them, a router has none of its own."""

_OTHERS = (
    (re.compile(r"llama-swap|llamaswap"), "it is llama-swap, which runs engines itself"),
    (re.compile(r"\bollama\b.*(serve|run|pull)", re.DOTALL), "it is Ollama, which runs engines itself"),
    (re.compile(r"koboldcpp"), "it is KoboldCpp, which Blazar cannot drive"),
)


@dataclass(frozen=True, slots=True)
class LocalBinary:
    """What a binary said of itself.

    Attributes:
        path: Absolute.
        kind: Its engine kind.
        version: What ``--version`` said, or ``None`` when it says nothing that can be read.
        manifest: Its flags.
        devices: The accelerators it can use.
    """

    path: Path
    kind: EngineKind
    version: BuildVersion | None
    manifest: Manifest
    devices: tuple[ListedDevice, ...]


def probe_binary(
    path: Path, *, timeout_s: float = QUESTION_TIMEOUT_S, environ: Mapping[str, str] | None = None
) -> LocalBinary:
    """Return what ``path`` is.

    Raises:
        NotAnEngine: It is none that Blazar can drive; the text says why and what to give instead.
    """
    path = path.expanduser().absolute()
    try:
        _check_file(path)
        manifest = _help(path, timeout_s, environ)
        version = parse_version(ask_binary(path, "--version", timeout_s=timeout_s, environ=environ).text)
        devices: tuple[ListedDevice, ...] = ()
        if manifest.find("--list-devices") is not None:
            devices = parse_list_devices(
                ask_binary(path, "--list-devices", timeout_s=timeout_s, environ=environ).stdout
            )
    except BinaryRefuses as error:
        raise NotAnEngine(path=str(path), reason=str(error)) from error
    return LocalBinary(path=path, kind=EngineKind.LLAMACPP, version=version, manifest=manifest, devices=devices)


def _check_file(path: Path) -> None:
    if path.is_dir():
        inside = sorted(path.rglob("llama-server"))
        hint = f"; it holds {inside[0]}" if inside else ""
        raise BinaryRefuses(f"it is a directory{hint}")
    if not path.exists():
        raise BinaryRefuses("there is no such file")
    if not path.is_file():
        raise BinaryRefuses("it is not a regular file")
    try:
        foreign = foreign_format(path)
    except OSError as error:
        raise BinaryRefuses(f"it cannot be read ({error.strerror})") from error
    if foreign is not None:
        raise BinaryRefuses(foreign)


def _help(path: Path, timeout_s: float, environ: Mapping[str, str] | None) -> Manifest:
    answer = ask_binary(path, "--help", timeout_s=timeout_s, environ=environ)
    manifest = parse_help(answer.stdout)
    missing = [flag for flag in _NEEDED if manifest.find(flag) is None]
    if not missing:
        return manifest
    for pattern, reason in _OTHERS:
        if pattern.search(answer.text.lower()):
            raise BinaryRefuses(reason)
    if manifest.find("--models-dir") is not None and manifest.find("--model") is None:
        raise BinaryRefuses("it is a router without a model of its own")
    if manifest.find("--model") is not None:
        raise BinaryRefuses(f"it is another program of llama.cpp (it lacks {', '.join(missing)}), not llama-server")
    raise BinaryRefuses("its --help does not list llama-server's flags")

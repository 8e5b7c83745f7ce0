"""Which engine build serves a model.

The decision in order:

1. The shape of the files allows certain engine kinds, in an order (:func:`kinds_for`).
2. A row's own ``engine`` (a kind, or a build's tag) beats that order, never the shape's bounds.
3. A pin remembered from an earlier re-route goes first.
4. Within a kind, mainstream builds outrank forks, however recently a fork was installed; a fork gets only
   architectures that it advertises.
5. A build that died on the model's architecture is not tried again.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from blazar_routing.errors import EngineMissing, UnknownEngineKind
from blazar_routing.kinds import EngineKind
from blazar_routing.shape import FormatShape, ShardFormat


class RoutingPolicy(StrEnum):
    """What to prefer where several engine kinds could serve plain safetensors."""

    QUALITY = "quality"
    THROUGHPUT = "throughput"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True)
class Build:
    """An installed engine build, as routing sees it.

    Attributes:
        tag: Its unique tag.
        kind: Its engine kind.
        active: New loads of the kind use this one.
        fork: It comes from a third-party fork (a capability lane).
        architectures: What a fork advertises; empty for mainstream builds, which are tried with anything.
    """

    tag: str
    kind: EngineKind
    active: bool
    fork: bool = False
    architectures: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Subject:
    """A model, as routing sees it.

    Attributes:
        name: The row's name.
        shape: The shape of its files.
        architecture: ``general.architecture`` or the like; ``""`` when unknown.
        engine: The row's own choice, a kind or a tag, or ``None``.
        pin: The tag remembered from a re-route, or ``None``.
        refused_by: Tags of builds that died on its architecture.
    """

    name: str
    shape: FormatShape
    architecture: str = ""
    engine: str | None = None
    pin: str | None = None
    refused_by: frozenset[str] = frozenset()


def kinds_for(shape: FormatShape, policy: RoutingPolicy = RoutingPolicy.QUALITY) -> tuple[EngineKind, ...]:
    """Return the engine kinds that may serve ``shape``, best first.

    Quantized safetensors never fall back to mistral.rs, whose dequantisation of AWQ, GPTQ and FP8 answers garbage
    or nothing; no text row goes to sd.cpp and no diffusion row anywhere else.
    """
    if shape.diffusion:
        return (EngineKind.SDCPP,)
    if shape.audio:
        return (EngineKind.WHISPER,)
    match shape.shards:
        case ShardFormat.MLX:
            return (EngineKind.MLX,)
        case ShardFormat.QUANTIZED_SAFETENSORS:
            return (EngineKind.SGLANG,)
        case ShardFormat.GGUF:
            return (EngineKind.LLAMACPP, EngineKind.MISTRALRS)
        case ShardFormat.SAFETENSORS:
            match policy:
                case RoutingPolicy.QUALITY | RoutingPolicy.THROUGHPUT:
                    return (EngineKind.SGLANG, EngineKind.MISTRALRS)
                case RoutingPolicy.LATENCY:
                    return (EngineKind.MISTRALRS, EngineKind.SGLANG)
                case _:
                    assert_never(policy)
        case _:
            assert_never(shape.shards)


def route_format(
    shape: FormatShape, installed: Iterable[EngineKind], policy: RoutingPolicy = RoutingPolicy.QUALITY
) -> tuple[EngineKind, ...]:
    """Return the installed engine kinds that may serve ``shape``, best first; empty when none can."""
    there = set(installed)
    return tuple(kind for kind in kinds_for(shape, policy) if kind in there)


def missing_kinds(
    shape: FormatShape, installed: Iterable[EngineKind], policy: RoutingPolicy = RoutingPolicy.QUALITY
) -> tuple[EngineKind, ...]:
    """Return the engine kinds that could serve ``shape`` but are not installed, best first."""
    there = set(installed)
    return tuple(kind for kind in kinds_for(shape, policy) if kind not in there)


def candidate_lanes(
    subject: Subject, builds: Sequence[Build], policy: RoutingPolicy = RoutingPolicy.QUALITY
) -> tuple[Build, ...]:
    """Return the builds that may serve ``subject``, best first.

    Raises:
        UnknownEngineKind: The row's own ``engine`` is neither a kind nor the tag of an installed build.
    """
    allowed = kinds_for(subject.shape, policy)
    named = next((build for build in builds if build.tag == subject.engine), None)
    if named is not None:
        ordered: Iterator[Build] = iter((named,)) if named.kind in allowed else iter(())
    elif subject.engine is not None:
        wanted = _kind_set(subject, builds)
        ordered = _builds_of(wanted, builds, subject.architecture) if wanted in allowed else iter(())
    else:
        ordered = (build for kind in allowed for build in _builds_of(kind, builds, subject.architecture))
    able = [build for build in ordered if build.tag not in subject.refused_by]
    able.sort(key=lambda build: build.tag != subject.pin)
    return tuple(able)


def _kind_set(subject: Subject, builds: Iterable[Build]) -> EngineKind:
    try:
        return EngineKind.parse(subject.engine or "")
    except UnknownEngineKind as error:
        tags = tuple(sorted(build.tag for build in builds))
        raise UnknownEngineKind(given=error.given, model=subject.name, tags=tags) from None


def serving_lane(subject: Subject, builds: Sequence[Build], policy: RoutingPolicy = RoutingPolicy.QUALITY) -> Build:
    """Return the build that serves ``subject``.

    Raises:
        EngineMissing: None can; the text names the kinds that could.
        UnknownEngineKind: See :func:`candidate_lanes`.
    """
    lanes = candidate_lanes(subject, builds, policy)
    if lanes:
        return lanes[0]
    kinds = kinds_for(subject.shape, policy)
    raise EngineMissing(
        model=subject.name,
        shape=str(subject.shape),
        kinds=tuple(kinds),
        chosen=subject.engine,
        refused_by=tuple(sorted(subject.refused_by)),
        architecture=subject.architecture,
    )


def _builds_of(kind: EngineKind, builds: Iterable[Build], architecture: str) -> Iterator[Build]:
    """Yield the builds of one kind that are worth a try: the active one, then forks that know the architecture."""
    of_kind = [build for build in builds if build.kind == kind]
    yield from (build for build in of_kind if build.active and not build.fork)
    yield from (build for build in of_kind if build.fork and architecture in build.architectures)

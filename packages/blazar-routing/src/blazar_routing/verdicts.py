"""Why each installed build serves a model or does not, for people. Follows :mod:`blazar_routing.lanes` step by step."""

from collections.abc import Sequence
from dataclasses import dataclass

from blazar_routing.kinds import EngineKind
from blazar_routing.lanes import Build, RoutingPolicy, Subject, candidate_lanes, kinds_for
from blazar_routing.shape import FormatShape, ShardFormat


@dataclass(frozen=True, slots=True)
class LaneVerdict:
    """What becomes of one build.

    Attributes:
        tag: The build.
        kind: Its kind.
        place: 1 for the one that serves, 2 for the next choice and so on; 0 for one that does not come into question.
        reason: Why, as the end of a sentence about it.
    """

    tag: str
    kind: EngineKind
    place: int
    reason: str


def judge_lanes(
    subject: Subject, builds: Sequence[Build], policy: RoutingPolicy = RoutingPolicy.QUALITY
) -> tuple[LaneVerdict, ...]:
    """Return a verdict for every build, those that come into question first and in order.

    Raises:
        UnknownEngineKind: See :func:`candidate_lanes`.
    """
    candidates = candidate_lanes(subject, builds, policy)
    tags = [build.tag for build in candidates]
    chosen = [
        LaneVerdict(build.tag, build.kind, place, _merit(build, subject, place))
        for place, build in enumerate(candidates, start=1)
    ]
    refused = [
        LaneVerdict(build.tag, build.kind, 0, _fault(build, subject, policy))
        for build in builds
        if build.tag not in tags
    ]
    return (*chosen, *refused)


def explain_shape(shape: FormatShape) -> str:
    """Return by what a shape was told, as the end of a sentence."""
    if shape.diffusion:
        return "the row lists components such as a VAE"
    if shape.audio:
        return "the row transcribes"
    match shape.shards:
        case ShardFormat.GGUF:
            return "the weights are .gguf files"
        case ShardFormat.SAFETENSORS:
            return "the weights are safetensors without a mark of MLX or of AWQ, GPTQ or FP8"
        case ShardFormat.QUANTIZED_SAFETENSORS:
            return "a word of the name, repository or path says AWQ, GPTQ or FP8"
        case ShardFormat.MLX:
            return "the directory has the marks of MLX, which are looked for first"


def _merit(build: Build, subject: Subject, place: int) -> str:
    if build.tag == subject.pin:
        return "it is remembered as the one that knows the model's architecture"
    if subject.engine == build.tag:
        return "the model is bound to it"
    if subject.engine is not None:
        return f"the model is bound to the kind '{subject.engine}'"
    if build.fork:
        return f"a fork that advertises the architecture '{subject.architecture}', after what is not a fork"
    return "the active build of the first kind in order" if place == 1 else "the active build of a kind further down"


def _fault(build: Build, subject: Subject, policy: RoutingPolicy) -> str:
    if build.kind not in kinds_for(subject.shape, policy):
        return f"the kind '{build.kind}' does not serve {subject.shape}"
    if build.tag in subject.refused_by:
        return f"it died on the model's architecture '{subject.architecture}'"
    if subject.engine is not None and subject.engine not in {build.tag, str(build.kind)}:
        return f"the model is bound to '{subject.engine}'"
    if build.fork:
        return f"a fork that does not advertise the architecture '{subject.architecture}'"
    return f"another build of its kind is active; `blazar engine use {build.tag}` changes that"

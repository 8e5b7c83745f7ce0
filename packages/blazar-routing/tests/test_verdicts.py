"""Why a build serves a model, or does not."""

import pytest

from blazar_routing.kinds import EngineKind
from blazar_routing.lanes import Build, Subject, candidate_lanes
from blazar_routing.shape import FormatShape, ShardFormat
from blazar_routing.verdicts import LaneVerdict, explain_shape, judge_lanes

GGUF = FormatShape(ShardFormat.GGUF)
NEW = Build("b2", EngineKind.LLAMACPP, active=True)
OLD = Build("b1", EngineKind.LLAMACPP, active=False)
FORK = Build("prism", EngineKind.LLAMACPP, active=False, fork=True, architectures=frozenset({"odd"}))
MISTRAL = Build("m1", EngineKind.MISTRALRS, active=True)
SGLANG = Build("s1", EngineKind.SGLANG, active=True)
ALL = (OLD, NEW, FORK, MISTRAL, SGLANG)


def judged(subject: Subject) -> list[tuple[str, int, str]]:
    return [(verdict.tag, verdict.place, verdict.reason) for verdict in judge_lanes(subject, ALL)]


NOT_ACTIVE = "another build of its kind is active; `blazar engine use b1` changes that"
NO_GGUF = "the kind 'sglang' does not serve a GGUF file"


@pytest.mark.parametrize(
    ("subject", "verdicts"),
    [
        pytest.param(
            Subject("m", GGUF, "llama"),
            [
                ("b2", 1, "the active build of the first kind in order"),
                ("m1", 2, "the active build of a kind further down"),
                ("b1", 0, NOT_ACTIVE),
                ("prism", 0, "a fork that does not advertise the architecture 'llama'"),
                ("s1", 0, NO_GGUF),
            ],
            id="by-the-order-of-kinds",
        ),
        pytest.param(
            Subject("m", GGUF, "odd", refused_by=frozenset({"b2"})),
            [
                ("prism", 1, "a fork that advertises the architecture 'odd', after what is not a fork"),
                ("m1", 2, "the active build of a kind further down"),
                ("b1", 0, NOT_ACTIVE),
                ("b2", 0, "it died on the model's architecture 'odd'"),
                ("s1", 0, NO_GGUF),
            ],
            id="after-a-death",
        ),
        pytest.param(
            Subject("m", GGUF, "odd", pin="prism"),
            [
                ("prism", 1, "it is remembered as the one that knows the model's architecture"),
                ("b2", 2, "the active build of a kind further down"),
                ("m1", 3, "the active build of a kind further down"),
                ("b1", 0, NOT_ACTIVE),
                ("s1", 0, NO_GGUF),
            ],
            id="remembered",
        ),
        pytest.param(
            Subject("m", GGUF, "llama", engine="b1"),
            [
                ("b1", 1, "the model is bound to it"),
                ("b2", 0, "the model is bound to 'b1'"),
                ("prism", 0, "the model is bound to 'b1'"),
                ("m1", 0, "the model is bound to 'b1'"),
                ("s1", 0, NO_GGUF),
            ],
            id="bound-to-a-build",
        ),
        pytest.param(
            Subject("m", GGUF, "llama", engine="mistralrs"),
            [
                ("m1", 1, "the model is bound to the kind 'mistralrs'"),
                ("b1", 0, "the model is bound to 'mistralrs'"),
                ("b2", 0, "the model is bound to 'mistralrs'"),
                ("prism", 0, "the model is bound to 'mistralrs'"),
                ("s1", 0, NO_GGUF),
            ],
            id="bound-to-a-kind",
        ),
        pytest.param(
            Subject("m", FormatShape(ShardFormat.QUANTIZED_SAFETENSORS)),
            [
                ("s1", 1, "the active build of the first kind in order"),
                *(
                    (build.tag, 0, f"the kind '{build.kind}' does not serve {_shape}")
                    for _shape in (FormatShape(ShardFormat.QUANTIZED_SAFETENSORS),)
                    for build in (OLD, NEW, FORK, MISTRAL)
                ),
            ],
            id="quantized-safetensors",
        ),
    ],
)
def test_each_build_has_its_reason(subject: Subject, verdicts: list[tuple[str, int, str]]) -> None:
    assert judged(subject) == verdicts


def test_the_order_is_that_of_the_decision() -> None:
    subject = Subject("m", GGUF, "odd")
    order = [verdict.tag for verdict in judge_lanes(subject, ALL) if verdict.place]
    assert order == [build.tag for build in candidate_lanes(subject, ALL)]
    assert isinstance(judge_lanes(subject, ALL)[0], LaneVerdict)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        (GGUF, ".gguf"),
        (FormatShape(ShardFormat.SAFETENSORS), "safetensors without"),
        (FormatShape(ShardFormat.QUANTIZED_SAFETENSORS), "AWQ"),
        (FormatShape(ShardFormat.MLX), "looked for first"),
        (FormatShape(ShardFormat.SAFETENSORS, diffusion=True), "VAE"),
        (FormatShape(ShardFormat.GGUF, audio=True), "transcribes"),
    ],
)
def test_shape_says_by_what_it_was_told(shape: FormatShape, words: str) -> None:
    assert words in explain_shape(shape)

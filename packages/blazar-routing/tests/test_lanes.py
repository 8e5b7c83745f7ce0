"""The routing matrix as a table."""

import pytest

from blazar_routing import (
    Build,
    EngineKind,
    FormatShape,
    RoutingPolicy,
    ShardFormat,
    Subject,
    candidate_lanes,
    is_quantized_safetensors,
    kinds_for,
    missing_kinds,
    route_format,
    serving_lane,
)
from blazar_routing.errors import EngineMissing, UnknownEngineKind

LLAMACPP, MISTRALRS, SGLANG = EngineKind.LLAMACPP, EngineKind.MISTRALRS, EngineKind.SGLANG
SDCPP, WHISPER, MLX = EngineKind.SDCPP, EngineKind.WHISPER, EngineKind.MLX

GGUF = FormatShape(ShardFormat.GGUF)
PLAIN = FormatShape(ShardFormat.SAFETENSORS)
QUANTIZED = FormatShape(ShardFormat.QUANTIZED_SAFETENSORS)
MLX_DIR = FormatShape(ShardFormat.MLX)
DIFFUSION = FormatShape(ShardFormat.GGUF, diffusion=True)
SPEECH = FormatShape(ShardFormat.GGUF, audio=True)


@pytest.mark.parametrize(
    ("is_dir", "quantized", "mlx", "expected"),
    [
        pytest.param(True, True, True, ShardFormat.MLX, id="mlx-is-asked-before-quantized"),
        pytest.param(True, False, True, ShardFormat.MLX, id="mlx-directory"),
        pytest.param(False, False, True, ShardFormat.GGUF, id="mlx-in-the-name-of-a-gguf"),
        pytest.param(True, True, False, ShardFormat.QUANTIZED_SAFETENSORS, id="quantized-directory"),
        pytest.param(True, False, False, ShardFormat.SAFETENSORS, id="plain-directory"),
        pytest.param(False, False, False, ShardFormat.GGUF, id="gguf"),
    ],
)
def test_format_detection(*, is_dir: bool, quantized: bool, mlx: bool, expected: ShardFormat) -> None:
    assert ShardFormat.detect(is_dir=is_dir, quantized=quantized, mlx=mlx) is expected


@pytest.mark.parametrize(
    ("name", "repository", "path", "expected"),
    [
        pytest.param("qwen-awq", "", "/m/qwen", True, id="word-in-the-name"),
        pytest.param("qwen", "org/Qwen-GPTQ-Int4", "/m/qwen", True, id="word-in-the-repository"),
        pytest.param("qwen", "", "/m/qwen_FP8.dynamic", True, id="word-in-the-path"),
        pytest.param("hawk", "org/hawk", "/m/hawk", False, id="hawk-stays-clean"),
        pytest.param("fp80", "", "/m/gptqx", False, id="longer-words-do-not-match"),
        pytest.param("qwen-awq", "org/qwen-awq", "/m/qwen-awq.GGUF", False, id="gguf-never-matches"),
    ],
)
def test_quantized_safetensors_are_told_by_whole_words(
    name: str, repository: str, path: str, *, expected: bool
) -> None:
    assert is_quantized_safetensors(name=name, repository=repository, path=path) is expected


@pytest.mark.parametrize(
    ("shape", "policy", "expected"),
    [
        pytest.param(GGUF, RoutingPolicy.QUALITY, (LLAMACPP, MISTRALRS), id="gguf"),
        pytest.param(GGUF, RoutingPolicy.LATENCY, (LLAMACPP, MISTRALRS), id="gguf-whatever-the-policy"),
        pytest.param(PLAIN, RoutingPolicy.QUALITY, (SGLANG, MISTRALRS), id="safetensors-quality"),
        pytest.param(PLAIN, RoutingPolicy.THROUGHPUT, (SGLANG, MISTRALRS), id="safetensors-throughput"),
        pytest.param(PLAIN, RoutingPolicy.LATENCY, (MISTRALRS, SGLANG), id="safetensors-latency"),
        pytest.param(QUANTIZED, RoutingPolicy.LATENCY, (SGLANG,), id="quantized-never-falls-back"),
        pytest.param(MLX_DIR, RoutingPolicy.QUALITY, (MLX,), id="mlx"),
        pytest.param(DIFFUSION, RoutingPolicy.QUALITY, (SDCPP,), id="diffusion"),
        pytest.param(SPEECH, RoutingPolicy.QUALITY, (WHISPER,), id="whisper"),
    ],
)
def test_kinds_for_each_shape(shape: FormatShape, policy: RoutingPolicy, expected: tuple[EngineKind, ...]) -> None:
    assert kinds_for(shape, policy) == expected


def test_no_text_shape_ever_goes_to_sdcpp() -> None:
    for shards in ShardFormat:
        for policy in RoutingPolicy:
            assert SDCPP not in kinds_for(FormatShape(shards), policy)
            assert kinds_for(FormatShape(shards, diffusion=True), policy) == (SDCPP,)


def test_installed_and_missing_kinds_split_the_candidates() -> None:
    assert route_format(GGUF, [MISTRALRS, SGLANG]) == (MISTRALRS,)
    assert missing_kinds(GGUF, [MISTRALRS, SGLANG]) == (LLAMACPP,)
    assert route_format(QUANTIZED, [MISTRALRS]) == ()
    assert missing_kinds(QUANTIZED, [MISTRALRS]) == (SGLANG,)


MAIN = Build("b10434", LLAMACPP, active=True)
OLD = Build("b9000", LLAMACPP, active=False)
FORK = Build("fork-1", LLAMACPP, active=False, fork=True, architectures=frozenset({"newarch"}))
MISTRAL = Build("v0.9.3", MISTRALRS, active=True)


@pytest.mark.parametrize(
    ("subject", "builds", "tags"),
    [
        pytest.param(
            Subject("m", GGUF), [MISTRAL, MAIN, OLD], ("b10434", "v0.9.3"), id="kind-order-active-builds-only"
        ),
        pytest.param(Subject("m", GGUF, "newarch"), [FORK, MAIN], ("b10434", "fork-1"), id="mainstream-before-fork"),
        pytest.param(Subject("m", GGUF, "llama"), [FORK, MAIN], ("b10434",), id="a-fork-gets-only-what-it-advertises"),
        pytest.param(
            Subject("m", GGUF, "newarch", refused_by=frozenset({"b10434"})), [MAIN, FORK], ("fork-1",), id="re-route"
        ),
        pytest.param(Subject("m", GGUF, "newarch", pin="fork-1"), [MAIN, FORK], ("fork-1", "b10434"), id="pin-first"),
        pytest.param(Subject("m", GGUF, engine="mistralrs"), [MAIN, MISTRAL], ("v0.9.3",), id="row-names-a-kind"),
        pytest.param(Subject("m", GGUF, engine="b9000"), [MAIN, OLD], ("b9000",), id="row-names-a-build"),
        pytest.param(Subject("m", MLX_DIR, engine="llamacpp"), [MAIN], (), id="a-choice-never-leaves-the-shape"),
        pytest.param(Subject("m", DIFFUSION, engine="b10434"), [MAIN], (), id="nor-does-a-named-build"),
        pytest.param(Subject("m", GGUF), [], (), id="nothing-installed"),
    ],
)
def test_candidate_lanes(subject: Subject, builds: list[Build], tags: tuple[str, ...]) -> None:
    assert tuple(build.tag for build in candidate_lanes(subject, builds)) == tags


def test_the_first_candidate_serves() -> None:
    assert serving_lane(Subject("m", GGUF), [MISTRAL, MAIN]) is MAIN


def test_no_candidate_is_a_teaching_error_with_the_kinds() -> None:
    with pytest.raises(EngineMissing) as caught:
        serving_lane(Subject("m", GGUF), [])
    assert caught.value.kinds == ("llamacpp", "mistralrs")
    assert "a GGUF file needs llamacpp or mistralrs" in str(caught.value)


def test_an_unknown_kind_lists_exactly_the_six() -> None:
    says = "unknown engine kind 'vllm': the supported kinds are llamacpp, mistralrs, sglang, sdcpp, whisper, mlx."
    with pytest.raises(UnknownEngineKind) as caught:
        EngineKind.parse("vllm")
    assert str(caught.value) == says
    for builds, others in (
        ([MAIN, MISTRAL], f"an installed build ({MAIN.tag}, {MISTRAL.tag})"),
        ([], "the tag of a build, once one is installed"),
    ):
        with pytest.raises(UnknownEngineKind) as caught:
            serving_lane(Subject("a b", GGUF, engine="vllm"), builds)
        assert str(caught.value) == (
            f"{says} It is the setting `engine` of model 'a b', in [models.\"a b\"] or [defaults] of the configuration: "
            f"set it to one of them or to {others}, or take it out."
        )
    assert [kind.value for kind in EngineKind] == ["llamacpp", "mistralrs", "sglang", "sdcpp", "whisper", "mlx"]

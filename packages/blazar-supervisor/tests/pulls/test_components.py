"""Diffusion models in pieces: what goes under which flag, and what is missing."""

import pytest

from blazar_supervisor.pulls.components import component_sets, flag_of
from blazar_supervisor.pulls.pulling import offer_of, shape_of_variant
from blazar_supervisor.pulls.variants import RemoteFile, VariantKind


@pytest.mark.parametrize(
    ("path", "flag"),
    [
        pytest.param("split_files/diffusion_models/z_image_turbo_bf16.safetensors", "--diffusion-model", id="model"),
        pytest.param("flux1-schnell-Q4_0.gguf", "--diffusion-model", id="a GGUF at the top"),
        pytest.param("unet/wan2.2_t2v_high_noise_14B.safetensors", "--high-noise-diffusion-model", id="high noise"),
        pytest.param("ae.safetensors", "--vae", id="flux's VAE"),
        pytest.param("VAE/Qwen_Image-VAE.safetensors", "--vae", id="VAE in capitals"),
        pytest.param("vae/wan_2.1.safetensors", "--vae", id="by its folder"),
        pytest.param("ltx-audio-vae.safetensors", "--audio-vae", id="audio"),
        pytest.param("text_encoders/clip_l.safetensors", "--clip_l", id="clip l"),
        pytest.param("clip/clip-g.safetensors", "--clip_g", id="clip g"),
        pytest.param("clip_vision/clip_vision_h.safetensors", "--clip_vision", id="clip vision"),
        pytest.param("text_encoders/t5xxl_fp8_e4m3fn.safetensors", "--t5xxl", id="t5"),
        pytest.param("umt5-xxl-Q8_0.gguf", "--t5xxl", id="umt5"),
        pytest.param("text_encoders/qwen_3_4b.safetensors", "--llm", id="llm"),
        pytest.param("text_encoders/qwen2.5-vl-mmproj.gguf", "--llm_vision", id="its eyes"),
        pytest.param("model.safetensors", None, id="no mark"),
        pytest.param("unet/model-00001-of-00002.safetensors", None, id="a part of a file"),
        pytest.param("vae/config.json", None, id="no weights"),
        pytest.param("aether-Q4_0.safetensors", None, id="not a VAE"),
    ],
)
def test_flags(path: str, flag: str | None) -> None:
    assert flag_of(path) == flag


def files(*paths: str) -> list[RemoteFile]:
    return [RemoteFile(path, 100 - number) for number, path in enumerate(paths)]


SET = (
    "flux-Q8_0.gguf",
    "flux-Q4_0.gguf",
    "ae.safetensors",
    "text_encoders/clip_l.safetensors",
    "text_encoders/t5xxl_fp16.safetensors",
    "text_encoders/t5xxl_fp8.safetensors",
)


def test_a_set_is_a_variant_for_each_of_its_diffusion_models() -> None:
    small, large = component_sets(files(*SET))
    assert (small.label, large.label) == ("Q4_0", "Q8_0")
    assert small.flags == ("--diffusion-model", "--clip_l", "--t5xxl", "--vae")
    # Of two encoders the smaller one does.
    assert [file.path for file in small.files] == [
        "flux-Q4_0.gguf",
        "text_encoders/clip_l.safetensors",
        "text_encoders/t5xxl_fp8.safetensors",
        "ae.safetensors",
    ]
    assert small.complete
    assert shape_of_variant("a/b", small).diffusion


def test_its_parts_are_offered_as_nothing_else() -> None:
    offer = offer_of(files(*SET))
    assert {variant.kind for variant in offer.variants} == {VariantKind.DIFFUSION}


def test_a_set_without_a_text_encoder_says_what_it_lacks() -> None:
    (variant,) = component_sets(files("flux-Q4_0.gguf", "ae.safetensors"))
    assert not variant.complete
    assert "a text encoder" in variant.lacks


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(("model-Q4_0.gguf",), id="a text model"),
        pytest.param(("ae.safetensors", "README.md"), id="no diffusion model"),
        pytest.param(("model_index.json", *SET), id="the layout of diffusers"),
    ],
)
def test_what_is_no_set(paths: tuple[str, ...]) -> None:
    assert component_sets(files(*paths)) == ()


@pytest.mark.parametrize(
    ("repository", "shape"),
    [
        pytest.param("owner/model", "a safetensors directory", id="plain"),
        pytest.param("owner/model-AWQ", "a directory of quantized safetensors (AWQ, GPTQ or FP8)", id="quantized"),
        pytest.param("owner/hawk-7b", "a safetensors directory", id="a word inside a word"),
        pytest.param("mlx-community/model-4bit", "an MLX directory", id="mlx"),
        pytest.param("owner/model-mlx", "an MLX directory", id="mlx by name"),
    ],
)
def test_shapes_by_name(repository: str, shape: str) -> None:
    (variant,) = offer_of(files("config.json", "model.safetensors")).variants
    assert str(shape_of_variant(repository, variant)) == shape

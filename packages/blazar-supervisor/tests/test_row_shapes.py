"""What a row is for routing."""

from pathlib import Path

import pytest

from blazar_store.testing import make_model
from blazar_store.types import ModelRow
from blazar_supervisor.residency.planner import shape_of


@pytest.mark.parametrize(
    ("row", "shape"),
    [
        pytest.param(make_model("m"), "a GGUF file", id="gguf"),
        pytest.param(make_model("m-awq"), "a GGUF file", id="a GGUF is never quantized safetensors"),
        pytest.param(make_model("m", format="safetensors"), "a safetensors directory", id="safetensors"),
        pytest.param(
            make_model("m-awq", format="safetensors", path=Path("/models/m")),
            "a directory of quantized safetensors (AWQ, GPTQ or FP8)",
            id="quantized by name",
        ),
        pytest.param(
            make_model("m", format="safetensors", path=Path("/models/x/y-FP8"), quant="BF16"),
            "a directory of quantized safetensors (AWQ, GPTQ or FP8)",
            id="quantized by path, whatever the label says",
        ),
        pytest.param(make_model("m-awq", format="mlx"), "an MLX directory", id="mlx is asked first"),
        pytest.param(
            make_model("m", components=(("--vae", Path("/v")),)), "a set of diffusion components", id="diffusion"
        ),
    ],
)
def test_shapes(row: ModelRow, shape: str) -> None:
    assert str(shape_of(row)) == shape

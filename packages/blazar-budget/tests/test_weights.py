import pytest

from blazar_budget import HOST, Device, Offload, map_layers, place_weights
from blazar_budget.testing import lay_out, made_up, plain_decoder
from blazar_gguf import GgufMeta

GIB = 1 << 30


def moe(*, tied: bool = False) -> GgufMeta:
    described: list[tuple[str, tuple[int, ...], str]] = [("token_embd.weight", (256, 1024), "F16")]
    if not tied:
        described.append(("output.weight", (256, 1024), "F16"))
    for layer in range(4):
        described += [
            (f"blk.{layer}.attn_q.weight", (256, 256), "F16"),
            (f"blk.{layer}.ffn_up_exps.weight", (256, 64, 8), "F16"),
            (f"blk.{layer}.ffn_down_exps.weight", (64, 256, 8), "F16"),
        ]
    keys = {"block_count": 4, "embedding_length": 256, "attention.head_count": 4, "context_length": 4096}
    return made_up("qwen3moe", keys, lay_out(described))


TABLE = 256 * 1024 * 2
ATTENTION = 256 * 256 * 2
EXPERTS = 2 * 256 * 64 * 8 * 2
GPU = [Device("GPU", GIB)]


@pytest.mark.parametrize(
    ("offload", "on_gpu"),
    [
        pytest.param(Offload(gpu_layers=0), 0, id="nothing"),
        pytest.param(Offload(gpu_layers=1), TABLE, id="the output first"),
        pytest.param(Offload(gpu_layers=2), TABLE + ATTENTION + EXPERTS, id="then layers from the end"),
        pytest.param(Offload(gpu_layers=5), TABLE + 4 * (ATTENTION + EXPERTS), id="everything but the token table"),
        pytest.param(Offload(), TABLE + 4 * (ATTENTION + EXPERTS), id="everything is the default"),
        pytest.param(Offload(cpu_moe=True), TABLE + 4 * ATTENTION, id="experts on the host"),
        pytest.param(Offload(n_cpu_moe=3), TABLE + 4 * ATTENTION + EXPERTS, id="experts of three layers on the host"),
        pytest.param(
            Offload(overrides=((r"blk\.0\.", HOST),)), TABLE + 3 * (ATTENTION + EXPERTS), id="a layer kept by name"
        ),
        pytest.param(Offload(gpu_layers=0, overrides=((r"attn_q", "GPU"),)), 4 * ATTENTION, id="tensors moved by name"),
    ],
)
def test_flags_decide_what_goes_to_the_device(offload: Offload, on_gpu: int) -> None:
    meta = moe()
    shares = place_weights(meta, devices=GPU, offload=offload)
    assert shares["GPU"].tensor_bytes == on_gpu
    assert shares[HOST].tensor_bytes == meta.tensor_bytes - on_gpu


def test_a_tied_token_table_costs_twice_once_the_output_is_on_a_device() -> None:
    meta = moe(tied=True)
    assert place_weights(meta, devices=GPU, offload=Offload(gpu_layers=0))[HOST].tensor_bytes == meta.tensor_bytes
    shares = place_weights(meta, devices=GPU)
    assert shares["GPU"].tensor_bytes + shares[HOST].tensor_bytes == meta.tensor_bytes + TABLE


def test_an_encoder_has_no_output_matrix_to_copy() -> None:
    meta = made_up("bert", {"block_count": 1}, lay_out([("token_embd.weight", (64, 100), "F16")]))
    assert place_weights(meta, devices=GPU)["GPU"].tensor_bytes == 0


def test_without_devices_everything_is_on_the_host_and_mapped_in_one_piece() -> None:
    meta = plain_decoder(layers=2, kind="F16")
    (share,) = place_weights(meta).values()
    assert (share.device, share.tensor_bytes) == (HOST, meta.tensor_bytes)
    assert meta.tensor_bytes <= share.mapped_bytes < meta.tensor_bytes + 32 * len(meta.tensors)


def test_weights_the_processor_rearranges_are_copied() -> None:
    meta = plain_decoder(layers=2, kind="Q4_0")
    share = place_weights(meta)[HOST]
    table = next(t.n_bytes for t in meta.tensors if t.name == "token_embd.weight")
    norms = sum(t.n_bytes for t in meta.tensors if t.type_name == "F32")
    assert share.repacked_bytes == meta.tensor_bytes - table - norms
    assert place_weights(meta, repack=False)[HOST].repacked_bytes == 0


def test_parts_of_a_split_model_are_summed_and_mapped_one_by_one() -> None:
    keys = {"block_count": 2, "embedding_length": 64, "attention.head_count": 1}
    first = made_up(
        "llama", keys, lay_out([("token_embd.weight", (64, 320), "F16"), ("output.weight", (64, 320), "F16")])
    )
    second = made_up(
        "llama", {}, lay_out([("blk.0.attn_q.weight", (64, 64), "F16"), ("blk.1.attn_q.weight", (64, 64), "F16")])
    )
    share = place_weights(first, parts=(first, second))[HOST]
    assert share.tensor_bytes == share.mapped_bytes == first.tensor_bytes + second.tensor_bytes


def test_prediction_blocks_are_loaded_only_for_speculation() -> None:
    described = [("token_embd.weight", (64, 320), "F16"), ("output.weight", (64, 320), "F16")]
    described += [(f"blk.{i}.attn_q.weight", (64, 64), "F16") for i in range(3)]
    meta = made_up("glm4", {"block_count": 3, "nextn_predict_layers": 1}, lay_out(described))
    block = 64 * 64 * 2
    assert place_weights(meta)[HOST].tensor_bytes == meta.tensor_bytes - block
    assert place_weights(meta, offload=Offload(mtp=True))[HOST].tensor_bytes == meta.tensor_bytes


@pytest.mark.parametrize(
    ("split", "expected"),
    [
        pytest.param((), ["A", "A", "B", "B", "B", "B"], id="by memory"),
        pytest.param((1.0, 1.0), ["A", "A", "A", "A", "B", "B"], id="halves, the output counted"),
        pytest.param((0.0, 1.0), ["B"] * 6, id="all on the second"),
    ],
)
def test_layers_are_split_between_devices(split: tuple[float, ...], expected: list[str]) -> None:
    devices = [Device("A", GIB), Device("B", 3 * GIB)]
    layers = map_layers(6, devices, Offload(tensor_split=split))
    assert list(layers.layers) == expected
    assert layers.output == "B"


def test_devices_of_unknown_size_share_alike() -> None:
    assert map_layers(3, [Device("A"), Device("B")], Offload()).layers == ("A", "A", "B")

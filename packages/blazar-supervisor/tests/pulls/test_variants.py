"""What a repository offers, and what is taken of it."""

import pytest

from blazar_supervisor.pulls.choosing import Fits, Judged, choose
from blazar_supervisor.pulls.variants import RemoteFile, VariantKind, find_variants, quant_label, sort_files


@pytest.mark.parametrize(
    ("path", "label"),
    [
        pytest.param("gemma-3-270m-it-Q4_K_M.gguf", "Q4_K_M", id="plain"),
        pytest.param("Qwen3-8B-UD-Q4_K_XL.gguf", "UD-Q4_K_XL", id="dynamic"),
        pytest.param("model.q8_0.gguf", "Q8_0", id="lower-case-after-a-dot"),
        pytest.param("model-IQ3_XXS.gguf", "IQ3_XXS", id="iq"),
        pytest.param("model-bf16.gguf", "BF16", id="bf16"),
        pytest.param("gpt-oss-20b-mxfp4.gguf", "MXFP4", id="mxfp4"),
        pytest.param("Q5_K_M/model-00001-of-00002.gguf", "Q5_K_M", id="in-the-folder"),
        pytest.param("Phi-3-mini-4k-instruct-q4.gguf", "", id="no-known-label"),
        pytest.param("Q4-team-model.gguf", "", id="a-word-that-looks-like-one"),
    ],
)
def test_labels(path: str, label: str) -> None:
    assert quant_label(path) == label


FILES = [
    RemoteFile("README.md", 10),
    RemoteFile("m-Q8_0.gguf", 800),
    RemoteFile("m-Q4_K_M.gguf", 400),
    RemoteFile("m-UD-Q4_K_XL.gguf", 420),
    RemoteFile("mmproj-F32.gguf", 90),
    RemoteFile("mmproj-BF16.gguf", 45),
    RemoteFile("mmproj-F16.gguf", 45),
    RemoteFile("m-imatrix.gguf", 5),
    RemoteFile("BF16/m-BF16-00002-of-00002.gguf", 700),
    RemoteFile("BF16/m-BF16-00001-of-00002.gguf", 900),
    RemoteFile("Q6_K/m-Q6_K-00001-of-00002.gguf", 300),
    RemoteFile("../../evil-Q4_0.gguf", 1),
]


def test_files_are_sorted_into_variants() -> None:
    offer = sort_files(FILES)
    assert [(variant.label, variant.size, variant.complete) for variant in offer.variants] == [
        ("Q6_K", 300, False),
        ("Q4_K_M", 400, True),
        ("UD-Q4_K_XL", 420, True),
        ("Q8_0", 800, True),
        ("BF16", 1600, True),
    ]
    assert [file.path for file in offer.projectors] == ["mmproj-F16.gguf", "mmproj-BF16.gguf", "mmproj-F32.gguf"]
    assert [file.path for file in offer.variants[-1].files] == [
        "BF16/m-BF16-00001-of-00002.gguf",
        "BF16/m-BF16-00002-of-00002.gguf",
    ]


@pytest.mark.parametrize(
    ("choice", "labels"),
    [
        pytest.param("Q4_K_M", ["Q4_K_M"], id="exactly"),
        pytest.param("q4_k_m", ["Q4_K_M"], id="in-any-case"),
        pytest.param("Q4_K_XL", ["UD-Q4_K_XL"], id="without-its-mark"),
        pytest.param("m-Q8_0.gguf", ["Q8_0"], id="by-file-name"),
        pytest.param("m-Q8_0", ["Q8_0"], id="by-stem"),
        pytest.param("BF16/m-BF16-00001-of-00002.gguf", ["BF16"], id="by-the-path-of-a-shard"),
        pytest.param("Q2_K", [], id="not-there"),
    ],
)
def test_a_choice_finds_its_variants(choice: str, labels: list[str]) -> None:
    assert [variant.label for variant in find_variants(sort_files(FILES), choice)] == labels


def test_a_directory_of_safetensors_is_one_variant() -> None:
    files = [
        "config.json",
        "tokenizer.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "x.bin",
        "sub/a.json",
    ]
    [variant] = sort_files(RemoteFile(path, 10) for path in files).variants
    assert variant.kind is VariantKind.SAFETENSORS
    assert {file.path for file in variant.files} == set(files[:4])
    assert variant.files[0].path == "model-00001-of-00002.safetensors"
    assert variant.complete


def test_a_part_of_split_safetensors_that_is_missing_is_named() -> None:
    paths = ["config.json", "model-00001-of-00004.safetensors", "model-00003-of-00004.safetensors"]
    [variant] = sort_files(RemoteFile(path, 10) for path in paths).variants
    assert (variant.complete, variant.lacks) == (False, "part 2, 4 of 4")


def test_the_makers_own_format_beside_it_is_left_out() -> None:
    paths = ["config.json", "consolidated.safetensors", "model.safetensors"]
    [variant] = sort_files(RemoteFile(path, 10) for path in paths).variants
    assert [file.path for file in variant.files] == ["model.safetensors", "config.json"]


def judged(**fits: Fits) -> list[Judged]:
    by_label = {variant.label: variant for variant in sort_files(FILES).variants}
    return [Judged(by_label[label], verdict) for label, verdict in fits.items()]


YES, TIGHT, NO, UNKNOWN = Fits.YES, Fits.TIGHT, Fits.NO, Fits.UNKNOWN


@pytest.mark.parametrize(
    ("offered", "label", "why"),
    [
        pytest.param(judged(Q4_K_M=YES, Q8_0=YES, BF16=YES), "Q8_0", "best quality that fits", id="the-best-that-fits"),
        pytest.param(judged(Q4_K_M=YES, Q8_0=TIGHT, BF16=NO), "Q4_K_M", "best quality that fits", id="not-a-tight-one"),
        pytest.param(judged(Q4_K_M=TIGHT, Q8_0=NO), "Q4_K_M", "tight", id="tight-when-nothing-else"),
        pytest.param(judged(Q4_K_M=NO, Q8_0=NO), None, "nothing in the repository fits", id="nothing-fits"),
        pytest.param(judged(Q4_K_M=UNKNOWN, Q8_0=UNKNOWN), "Q4_K_M", "usual balance", id="memory-not-known"),
        pytest.param(judged(Q6_K=YES), None, "no complete model", id="an-incomplete-set-is-nothing"),
        pytest.param(judged(BF16=NO), "BF16", "only one", id="the-only-one"),
    ],
)
def test_choosing(offered: list[Judged], label: str | None, why: str) -> None:
    choice = choose(offered)
    assert (choice.judged.variant.label if choice.judged else None) == label
    assert why in choice.reason


def test_of_two_recipes_of_one_label_the_larger_is_taken() -> None:
    mapping = {variant.label: variant for variant in sort_files(FILES).variants}
    choice = choose([Judged(mapping["Q4_K_M"], YES), Judged(mapping["UD-Q4_K_XL"], YES)])
    assert choice.judged is not None
    assert choice.judged.variant.label == "UD-Q4_K_XL"

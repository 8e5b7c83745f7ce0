import importlib.resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_supervisor.engines.manifest import Manifest, parse_help


@pytest.fixture(scope="module")
def b10434() -> Manifest:
    text = (importlib.resources.files("blazar_stubs") / "data" / "llama-server-b10434.help.txt").read_text("utf-8")
    return parse_help(text)


def test_every_entry_of_a_real_help_text_is_read_once(b10434: Manifest) -> None:
    spellings = [name for flag in b10434.flags for name in flag.spellings]
    assert len(b10434.flags) == 248
    assert len(spellings) == len(set(spellings)) == 405
    assert sum(name.startswith("--") for name in spellings) == 322
    assert sum(not flag.placeholder for flag in b10434.flags) == 64
    assert sum(flag.removed for flag in b10434.flags) == 5


@pytest.mark.parametrize("phantom", ["--load-mode-", "--spec-ngram-", "--fim-qwen-1"])
def test_flags_that_only_descriptions_mention_are_not_flags(b10434: Manifest, phantom: str) -> None:
    assert b10434.find(phantom) is None


@pytest.mark.parametrize(
    ("spelling", "values"),
    [
        pytest.param("--metrics", 0, id="switch"),
        pytest.param("-c", 1, id="short"),
        pytest.param("--kv_unified", 0, id="underscores"),
        pytest.param("-fa", 1, id="brackets-still-need-a-value"),
        pytest.param("--fim-qwen-1.5b-default", 0, id="dot-in-the-name"),
        pytest.param("--control-vector-layer-range", 2, id="two-values"),
        pytest.param("--override-tensor", 1, id="placeholder-with-spaces"),
        pytest.param("--spec-type", 1, id="enumeration"),
    ],
)
def test_a_flag_knows_how_many_values_it_takes(b10434: Manifest, spelling: str, values: int) -> None:
    flag = b10434.find(spelling)
    assert flag is not None
    assert flag.values == values


def test_a_removed_flag_is_known_but_cannot_be_used(b10434: Manifest) -> None:
    assert b10434.find("--draft") is None
    removed = b10434.find_removed("--draft-max")
    assert removed is not None
    assert "--spec-draft-n-max" in removed.text


def test_the_nearest_flag_is_a_usable_one(b10434: Manifest) -> None:
    assert b10434.nearest("--kv-unifed") == "--kv-unified"
    assert b10434.nearest("--draft-n-mix") != "--draft-n-min"
    assert b10434.nearest("--zzzzqqqq") is None


def test_underscores_are_kept_where_the_engine_does_not_fold_them() -> None:
    manifest = parse_help("--llm_vision FNAME                      the vision model\n", folds_underscores=False)
    assert manifest.find("--llm_vision") is not None
    assert manifest.find("--llm-vision") is None


@given(st.text(max_size=2000))
def test_no_text_breaks_the_parser(text: str) -> None:
    for flag in parse_help(text).flags:
        assert flag.spellings

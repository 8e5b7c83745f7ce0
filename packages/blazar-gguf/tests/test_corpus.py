"""What scripts/fuzz found worth keeping, gone through again."""

from collections.abc import Callable
from pathlib import Path

import pytest

from blazar_gguf.testing import exercise_header, exercise_template

CORPUS = Path(__file__).parent / "corpus"


@pytest.mark.parametrize(("name", "target"), [("header", exercise_header), ("template", exercise_template)])
def test_every_kept_input_gives_a_result_or_a_typed_error(name: str, target: Callable[[bytes], object]) -> None:
    kept = sorted((CORPUS / name).iterdir())
    assert len(kept) > 20
    outcomes = [bool(target(path.read_bytes())) for path in kept]
    assert any(outcomes), "some inputs must be good ones"
    assert not all(outcomes), "and some bad ones"

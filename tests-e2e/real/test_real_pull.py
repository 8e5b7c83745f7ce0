"""From an empty data directory to an answer by name: the recorded session, done again."""

import re
import sys
from pathlib import Path

import pytest

from e2e.repository import ROOT, run_ok


@pytest.mark.promise("real:by-name")
def test_from_nothing_to_an_answer_by_name(tmp_path: Path) -> None:
    session = tmp_path / "session.md"
    run_ok(sys.executable, ROOT / "scripts" / "record_pull", "--out", session, timeout_s=550)
    said = session.read_text(encoding="utf-8")
    assert "No model is registered yet." in said
    assert re.search(r"^Q4_1 +93\.8 MiB +fits ", said, re.MULTILINE)
    assert "takes Q4_1: it is the only one in the repository." in said
    # At temperature 0 the model is right about this one, on every processor.
    assert re.search(r"^fetching .* 100 % .*\n.*Paris", said, re.MULTILINE)
    assert re.search(r"^someone/SmolLM2-135M-Instruct-GGUF:Q4_1 +llama +134\.5M", said, re.MULTILINE)
    assert "and its files (93.8 MiB)." in said
    assert str(Path.home()) not in said
    # What the page shows has the same commands in the same order.
    page = (ROOT / "docs" / "tutorial" / "a-model-by-name.md").read_text(encoding="utf-8")
    assert commands(said) == commands(page)


def commands(text: str) -> list[str]:
    return re.findall(r"^\$ (.*)$", text, re.MULTILINE)

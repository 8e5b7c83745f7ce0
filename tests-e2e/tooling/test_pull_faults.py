"""The table of what becomes of a pull: every fault has its line, and nothing is lost in any of them."""

import re

import pytest

from blazar_supervisor.testing.hub import Fault
from e2e.repository import ROOT

LINES = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "reference" / "pull-faults.md").read_text(encoding="utf-8").splitlines()
    if re.match(r"\| [^-f]|\| full", line) and not line.startswith("| fault")
]


@pytest.mark.parametrize("fault", [*Fault, "killed in the middle", "two clients", "client gone", "disk full"], ids=str)
def test_every_fault_is_in_the_table(fault: str) -> None:
    assert [line for line in LINES if line[0].startswith(fault)]


def test_nothing_is_lost_in_any_of_them() -> None:
    assert len(LINES) >= len(Fault) + 4
    assert {line[2] for line in LINES} == {"0"}
    assert all("whole" in line[1] for line in LINES)

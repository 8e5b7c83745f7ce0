"""`blazar demo`, from the command to the figures, on the parts that are in the cache."""

import re

import pytest

from blazar_cli.parts import ensure_part, parts_directory
from e2e.home import Home


@pytest.mark.promise("command:demo")
def test_the_demo_answers_and_shows_its_figures(home: Home) -> None:
    for part in ("engine", "smollm2"):
        ensure_part(part)
    # The cache of whoever runs the tests: nothing is fetched twice.
    done = home.blazar("demo", env={"XDG_CACHE_HOME": str(parts_directory().parents[1])}, timeout_s=550)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^engine commit +[0-9a-f]{7,}", done.stdout, re.MULTILINE)
    sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
    assert re.search(rf"^model sha256 +{sha256}$", done.stdout, re.MULTILINE)
    assert re.search(r"^load time +[\d.]+ s$", done.stdout, re.MULTILINE)
    assert re.search(r"^first token +[\d.]+ s$", done.stdout, re.MULTILINE)
    assert re.search(r"^speed +[\d.]+ tokens/s", done.stdout, re.MULTILINE)
    # The answer stands between the question and the figures.
    answer = done.stdout.split(">>> ", 1)[1].split("\n", 1)[1].split("engine commit")[0]
    assert len(answer.split()) > 3


@pytest.mark.promise("command:demo")
def test_the_demo_says_why_a_part_cannot_be_had(home: Home) -> None:
    # An index that refuses every connection, and an empty cache.
    done = home.blazar("demo", env={"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"})
    assert done.returncode == 13
    assert "could not be fetched" in done.stderr
    assert "Check the network" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(home.root.glob("cache/blazar/parts/engine-*"))

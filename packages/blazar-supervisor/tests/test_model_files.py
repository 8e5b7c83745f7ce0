"""What is said of files that cannot be read: one reason and one piece of advice."""

import os
from pathlib import Path

import pytest

from blazar_routing.errors import ModelUnreadable
from blazar_store.testing import make_model
from blazar_supervisor.residency.model_files import read_model


def refusal(path: Path) -> str:
    with pytest.raises(ModelUnreadable) as caught:
        read_model(make_model(path=path, shards=(path,)))
    return str(caught.value)


def test_a_file_that_is_cut_short_is_told_once_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + (0).to_bytes(8, "little") + (9).to_bytes(8, "little"))
    text = refusal(path)
    assert "the file ends inside" in text
    assert "(at byte 24)" in text
    assert text.endswith("(size and sha256 against its source) and fetch it again if not.")
    assert "Download it again" not in text


@pytest.mark.parametrize("kind", ["a directory", "a pipe, no regular file"])
def test_what_is_no_file_is_told_what_it_is(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.gguf"
    if kind == "a directory":
        path.mkdir()
    else:
        os.mkfifo(path)
    text = refusal(path)
    assert f"cannot be served: this is {kind}. Give the path of one .gguf file." in text
    assert "sha256" not in text

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from blazar_cli.address import Address
from blazar_cli.registration import describe_model
from blazar_cli.serving.banner import banner
from blazar_stubs import write_stub_model


@pytest.mark.parametrize("name", ["two words", "it's", "[x]", "$HOME", "plain"])
def test_the_commands_in_the_banner_can_be_pasted_whatever_the_model_is_called(tmp_path: Path, name: str) -> None:
    row = describe_model(write_stub_model(tmp_path / "m.gguf").path)
    text = banner(
        Address(), models=[replace(row, name=name)], engines=[], log=tmp_path / "l", control_socket=tmp_path / "s"
    )
    ask, curl = text.splitlines()[-2:]
    assert shlex.split(ask) == ["ask", "blazar", "run", name]
    assert len(shlex.split(curl)) == 4

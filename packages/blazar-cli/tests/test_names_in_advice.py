import re
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from blazar_cli.address import Address
from blazar_cli.errors import EngineInUse
from blazar_cli.registration import describe_model
from blazar_cli.serving.banner import banner
from blazar_routing import errors
from blazar_stubs import write_stub_model


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(lambda name: errors.ModelFileMissing(model=name, path="/m"), id="missing"),
        pytest.param(lambda name: errors.EngineStalled(model=name, seconds=1), id="stalled"),
        pytest.param(lambda name: errors.BreakerOpen(model=name, crashes=2, wait_s=1), id="breaker"),
        pytest.param(lambda name: errors.LoadTimeout(model=name, seconds=1), id="timeout"),
        pytest.param(lambda name: errors.KeyNameTaken(name=name), id="key"),
        pytest.param(lambda name: EngineInUse(tag="t", models=(name,)), id="engine"),
    ],
)
@pytest.mark.parametrize("name", ["two words", "it's", "$HOME", "a;b", "-x"])
def test_the_commands_in_refusals_can_be_pasted_whatever_the_model_is_called(
    error: Callable[[str], Exception], name: str
) -> None:
    commands = re.findall(r"`(blazar [^`]*)`", str(error(name)))
    assert any(name in shlex.split(command) for command in commands)


def test_a_table_of_the_settings_is_named_as_toml_writes_it() -> None:
    text = str(errors.LoadTimeout(model='a "b" \\ c', seconds=1))
    (table,) = re.findall(r"under (\[models.*\]) if", text)
    assert tomllib.loads(table)["models"] == {'a "b" \\ c': {}}


@pytest.mark.parametrize("name", ["two words", "it's", "[x]", "$HOME", "plain"])
def test_the_commands_in_the_banner_can_be_pasted_whatever_the_model_is_called(tmp_path: Path, name: str) -> None:
    row = describe_model(write_stub_model(tmp_path / "m.gguf").path)
    text = banner(
        Address(), models=[replace(row, name=name)], engines=[], log=tmp_path / "l", control_socket=tmp_path / "s"
    )
    ask, curl = text.splitlines()[-2:]
    assert shlex.split(ask) == ["ask", "blazar", "run", name]
    assert len(shlex.split(curl)) == 4

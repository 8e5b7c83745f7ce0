import configparser
import plistlib
from pathlib import Path

import pytest

from blazar_cli.service_units import ServicePlan, launchd_agent, plan_service, systemd_unit

LOG = Path("/data/log/service.log")


def test_the_plan_passes_on_what_decides_which_daemon_it_is() -> None:
    environ = {"BLAZAR_DATA_DIR": "/d", "HOME": "/h", "BLAZAR_API_KEY": "secret", "XDG_CONFIG_HOME": ""}
    plan = plan_service(python="/py", environ=environ, log=LOG, host="0.0.0.0", port=8000)
    assert plan.command == ["/py", "-m", "blazar_cli.main", "serve", "--host", "0.0.0.0", "--port", "8000"]
    assert plan.environment == {"BLAZAR_DATA_DIR": "/d"}


def test_a_bind_conflict_is_never_restarted() -> None:
    unit = systemd_unit(ServicePlan(["/py", "serve"], LOG))
    assert "RestartPreventExitStatus=3\n" in unit
    assert "RestartPreventExitStatus=4 9 14\n" in unit
    assert "Restart=on-failure\n" in unit


def test_the_unit_has_the_sections_that_systemd_wants() -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.read_string(systemd_unit(ServicePlan(["/py", "serve"], LOG, {"BLAZAR_CONFIG": "/c"})))
    assert parser.sections() == ["Unit", "Service", "Install"]
    assert parser["Service"]["ExecStart"] == "/py serve"
    assert parser["Service"]["Environment"] == "BLAZAR_CONFIG=/c"
    assert parser["Service"]["KillMode"] == "mixed"


@pytest.mark.parametrize(
    ("word", "written"),
    [
        pytest.param("/plain/path", "/plain/path", id="plain"),
        pytest.param("/with space", '"/with space"', id="space"),
        pytest.param("100%", '"100%%"', id="percent starts a specifier"),
        pytest.param("$HOME", '"$$HOME"', id="dollar starts a variable"),
        pytest.param('a"b\\', '"a\\"b\\\\"', id="quote and backslash"),
    ],
)
def test_odd_paths_survive_systemds_syntax(word: str, written: str) -> None:
    assert f"ExecStart={written}\n" in systemd_unit(ServicePlan([word], LOG))


def test_the_launchd_agent_starts_the_same_command() -> None:
    agent = plistlib.loads(launchd_agent(ServicePlan(["/py", "serve"], LOG, {"BLAZAR_CONFIG": "/c"})))
    assert agent["ProgramArguments"] == ["/py", "serve"]
    assert agent["EnvironmentVariables"] == {"BLAZAR_CONFIG": "/c"}
    assert agent["KeepAlive"] == {"SuccessfulExit": False}
    assert agent["StandardErrorPath"] == str(LOG)

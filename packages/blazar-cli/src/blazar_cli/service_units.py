"""What a service manager needs to run the daemon: a systemd user unit, a launchd agent. Pure texts.

Exit status 3 (the address is taken) must not lead to a restart: the loop would never end. Nor must those that a
restart cannot cure: data directory in use, invalid configuration, unsupported platform.
"""

import plistlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from blazar_cli.exit_codes import ExitCode

SYSTEMD_NAME = "blazar.service"
LAUNCHD_LABEL = "dev.blazar.daemon"
HOPELESS = (ExitCode.DATA_DIR_IN_USE, ExitCode.CONFIG_INVALID, ExitCode.UNSUPPORTED_PLATFORM)

PASSED_ON = ("BLAZAR_DATA_DIR", "BLAZAR_CONFIG", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME")
"""Variables that decide which daemon this is; a service starts without the shell that set them."""

_STOP_S = 60


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What is to be run.

    Attributes:
        command: The argument vector of ``blazar serve``, the program absolute.
        environment: Variables that the service must have.
        log: Where standard output goes under launchd; systemd has its journal.
    """

    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)


def plan_service(
    *, python: str, environ: Mapping[str, str], log: Path, host: str | None = None, port: int | None = None
) -> ServicePlan:
    """Return the plan for this user's daemon.

    Args:
        python: The interpreter that Blazar is installed for.
        environ: The environment of whoever installs it.
        log: For launchd.
        host: As given to ``--host``, or ``None`` for what the configuration says.
        port: Likewise.
    """
    command = [python, "-m", "blazar_cli.main", "serve"]
    if host is not None:
        command += ["--host", host]
    if port is not None:
        command += ["--port", str(port)]
    return ServicePlan(command, log, {name: environ[name] for name in PASSED_ON if environ.get(name)})


def systemd_unit(plan: ServicePlan) -> str:
    """Return the text of ``blazar.service``."""
    environment = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in plan.environment.items())
    return f"""\
[Unit]
Description=Blazar: local models behind one address
After=network.target

[Service]
Type=exec
ExecStart={" ".join(_quoted(word) for word in plan.command)}
{environment}Restart=on-failure
RestartSec=2
# The address is taken: another start would find the same.
RestartPreventExitStatus={ExitCode.BIND_CONFLICT:d}
RestartPreventExitStatus={" ".join(str(int(code)) for code in HOPELESS)}
# The daemon stops its engines itself; what is left after the time is killed.
KillMode=mixed
TimeoutStopSec={_STOP_S}

[Install]
WantedBy=default.target
"""


def launchd_agent(plan: ServicePlan) -> bytes:
    """Return the property list of the launchd agent.

    launchd cannot tell one exit status from another; it restarts after a failure, at most every ten seconds.
    """
    return plistlib.dumps(
        {
            "Label": LAUNCHD_LABEL,
            "ProgramArguments": list(plan.command),
            "EnvironmentVariables": dict(plan.environment),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": 10,
            "ExitTimeOut": _STOP_S,
            "ProcessType": "Interactive",
            "StandardOutPath": str(plan.log),
            "StandardErrorPath": str(plan.log),
        }
    )


def _quoted(word: str) -> str:
    # systemd.syntax(7) and systemd.service(5): % starts a specifier, $ a variable.
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    plain = escaped == word and word and not any(char.isspace() or char in "';" for char in word)
    return word if plain else f'"{escaped}"'

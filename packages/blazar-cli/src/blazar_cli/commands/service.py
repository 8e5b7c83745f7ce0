"""``blazar service``: start the daemon at login."""

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import rich_click as click

from blazar_cli.errors import ServiceManagerFailed, ServiceManagerMissing
from blazar_cli.local import here
from blazar_cli.service_units import (
    LAUNCHD_LABEL,
    SYSTEMD_NAME,
    ServicePlan,
    launchd_agent,
    plan_service,
    systemd_unit,
)

_MANAGER_S = 120


@dataclass(frozen=True, slots=True)
class _Manager:
    """A service manager of this system.

    Attributes:
        program: Its command.
        file: Where the service is described.
        start: Commands that make it read the file and start the service.
        stop: Commands that stop the service and forget it.
    """

    program: str
    file: Path
    start: tuple[tuple[str, ...], ...]
    stop: tuple[tuple[str, ...], ...]

    def text(self, plan: ServicePlan) -> bytes:
        """Return the content of the file."""
        return launchd_agent(plan) if self.program == "launchctl" else systemd_unit(plan).encode()


def _manager(platform: str) -> _Manager:
    if platform == "darwin":
        file = Path.home() / "Library" / "LaunchAgents" / f"{LAUNCHD_LABEL}.plist"
        domain = f"gui/{os.getuid()}"
        return _Manager(
            "launchctl",
            file,
            start=(("launchctl", "bootstrap", domain, str(file)),),
            stop=(("launchctl", "bootout", f"{domain}/{LAUNCHD_LABEL}"),),
        )
    config_home = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    user = ("systemctl", "--user")
    return _Manager(
        "systemctl",
        config_home / "systemd" / "user" / SYSTEMD_NAME,
        start=((*user, "daemon-reload"), (*user, "enable", "--now", SYSTEMD_NAME)),
        stop=((*user, "disable", "--now", SYSTEMD_NAME), (*user, "daemon-reload")),
    )


@click.group()
def service() -> None:
    """Start the daemon at login (systemd, launchd)."""


def _plan(host: str | None, port: int | None) -> ServicePlan:
    _, layout = here()
    return plan_service(
        python=sys.executable, environ=os.environ, log=layout.log_dir / "service.log", host=host, port=port
    )


_host = click.option("--host", metavar="ADDRESS", help="Where to listen. Default: what the configuration says.")
_port = click.option("--port", type=click.IntRange(1, 65535), help="The port. Default: what the configuration says.")


@service.command("print")
@_host
@_port
def print_service(*, host: str | None, port: int | None) -> None:
    """Print the unit (systemd) or agent (launchd) that install would write."""
    click.echo(_manager(sys.platform).text(_plan(host, port)), nl=False)


@service.command()
@_host
@_port
def install(*, host: str | None, port: int | None) -> None:
    """Write the unit or agent for this user, and start it now and at every login."""
    manager = _manager(sys.platform)
    if shutil.which(manager.program) is None:
        raise ServiceManagerMissing(program=manager.program)
    plan = _plan(host, port)
    plan.log.parent.mkdir(parents=True, exist_ok=True)
    manager.file.parent.mkdir(parents=True, exist_ok=True)
    manager.file.write_bytes(manager.text(plan))
    for command in manager.start:
        _run(command, file=manager.file)
    click.echo(f"Installed {manager.file}. `blazar status` shows how the daemon does.")
    if manager.program == "systemctl":
        click.echo("To keep it running without a login: `loginctl enable-linger`.")


@service.command()
def uninstall() -> None:
    """Stop the service and remove the unit or agent."""
    manager = _manager(sys.platform)
    if not manager.file.exists():
        click.echo(f"There is no service: {manager.file} does not exist.")
        return
    if shutil.which(manager.program) is None:
        raise ServiceManagerMissing(program=manager.program)
    stop, *reload = manager.stop
    _run(stop, file=manager.file)
    manager.file.unlink()
    for command in reload:
        _run(command, file=manager.file)
    click.echo(f"Removed {manager.file}. Models, engines and configuration are untouched.")


def _run(command: tuple[str, ...], *, file: Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MANAGER_S, check=False)
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise ServiceManagerFailed(command=" ".join(command), said=said, file=file)

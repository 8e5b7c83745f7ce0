"""What can go wrong on the command's own side: nobody answers, a wrong address, no terminal.

::

    CliError
    ├── AddressInvalid, DaemonDown, NotBlazar, ApiRefused, AnswerBroken
    ├── BindConflict, BindRefused, TlsIncomplete, TlsUnusable, PlatformUnsupported
    ├── NotText, NotAModel, PathMissing, ModelfileInvalid, EngineInUse, EngineOrphaned
    ├── PartUnavailable, ExtraMissing
    ├── ServiceManagerMissing, ServiceManagerFailed
    ├── AgentMissing, AgentKeyMissing, AgentModelUnclear
    └── NoAccounts

Refusals that clients of the API can get too are ``LaneError`` (``blazar_routing.errors``); those about files of
ours are ``StoreError`` (``blazar_store.errors``). ``exit_codes`` knows both by their ``code``.
"""

import shlex
from pathlib import Path

from blazar_cli.exit_codes import ExitCode, exit_for


class CliError(Exception):
    """One situation in which a command ends early; ``str(error)`` is all that the user sees."""

    exit_code: ExitCode = ExitCode.FAILED


class AddressInvalid(CliError):
    """The text that should name an address does not."""

    exit_code = ExitCode.USAGE

    def __init__(self, *, given: str, source: str, reason: str) -> None:
        self.given = given
        self.source = source
        shown = given if given.isprintable() else given.encode("unicode_escape").decode()
        super().__init__(
            f"the address '{shown}' (from {source}) cannot be used: {reason}. "
            "Write it as 192.168.1.7, 192.168.1.7:11435, [::1]:11435 or https://models.example.org."
        )


class DaemonDown(CliError):
    """Nobody answers where the daemon should be."""

    exit_code = ExitCode.DAEMON_DOWN

    def __init__(self, *, url: str, reason: str, local: bool) -> None:
        self.url = url
        self.local = local
        advice = (
            "Start it with `blazar serve`."
            if local
            else "Start it there with `blazar serve --host 0.0.0.0`, or correct the address "
            "(--host, BLAZAR_HOST or OLLAMA_HOST)."
        )
        super().__init__(f"no Blazar daemon answers at {url}: {reason}. {advice}")


class NotBlazar(CliError):
    """Something answers there, and it is another program."""

    exit_code = ExitCode.DAEMON_DOWN

    def __init__(self, *, url: str, path: str, status: int) -> None:
        self.url = url
        super().__init__(
            f"the server at {url} is not a Blazar daemon: it answered {path} with status {status}. "
            "Correct the address (--host, BLAZAR_HOST or OLLAMA_HOST), or start the daemon with `blazar serve`."
        )


class NotText(CliError):
    """Something to be sent is not text."""

    exit_code = ExitCode.USAGE

    def __init__(self, *, what: str) -> None:
        super().__init__(
            f"{what} is not UTF-8 text, and only text can be sent. Convert it first, for example with iconv."
        )


class ApiRefused(CliError):
    """The daemon refused the request; the text is its own."""

    def __init__(self, text: str, *, code: str, http_status: int) -> None:
        self.code = code
        self.http_status = http_status
        match http_status:
            case 401 | 403:
                self.exit_code = ExitCode.REFUSED
            case 429:
                self.exit_code = ExitCode.BUSY
            case _:
                self.exit_code = exit_for(code)
        super().__init__(text)


class AnswerBroken(CliError):
    """The connection ended in the middle of an answer."""

    def __init__(self, *, url: str, reason: str) -> None:
        self.url = url
        super().__init__(
            f"the connection to {url} broke in the middle of the answer ({reason}). "
            "See `blazar status`; if the daemon is gone, `blazar logs` shows its last lines."
        )


class BindConflict(CliError):
    """Another program listens on the address already."""

    exit_code = ExitCode.BIND_CONFLICT

    def __init__(self, *, address: str, holder: str) -> None:
        self.address = address
        self.holder = holder
        super().__init__(
            f"cannot listen on {address}: {holder}. "
            "Stop that program, or choose another port with `blazar serve --port PORT`."
        )


class BindRefused(CliError):
    """The address cannot be listened on at all: not ours, or a privileged port."""

    def __init__(self, *, address: str, reason: str) -> None:
        self.address = address
        super().__init__(
            f"cannot listen on {address}: {reason}. Choose another address with `blazar serve --host HOST --port PORT`."
        )


class TlsIncomplete(CliError):
    """A certificate without its key, or the other way round."""

    exit_code = ExitCode.USAGE

    def __init__(self, *, given: str, missing: str) -> None:
        super().__init__(
            f"`{given}` was given without `{missing}`: https needs the certificate and its key. "
            "Give both, or neither to serve http."
        )


class TlsUnusable(CliError):
    """The files for https cannot be used."""

    exit_code = ExitCode.CONFIG_INVALID

    def __init__(self, *, cert: Path, key: Path, reason: str) -> None:
        super().__init__(
            f"https cannot be served with the certificate {cert} and the key {key}: {reason}. "
            "Both must be PEM files that this user can read, belonging together, the key without a password."
        )


class PlatformUnsupported(CliError):
    """The daemon needs signals, process groups and unix sockets."""

    exit_code = ExitCode.UNSUPPORTED_PLATFORM

    def __init__(self, *, platform: str) -> None:
        self.platform = platform
        super().__init__(
            f"the daemon does not run on {platform}: it needs Linux or macOS. On Windows use it inside WSL 2; "
            "the library packages (blazar-gguf, blazar-budget) and commands against another machine "
            "(BLAZAR_HOST) work here."
        )


def check_platform(platform: str) -> None:
    """Refuse to go on where the daemon cannot run, before anything is imported that only Unix has.

    Args:
        platform: As in ``sys.platform``.

    Raises:
        PlatformUnsupported: On Windows.
    """
    if platform in {"win32", "cygwin"}:
        raise PlatformUnsupported(platform="Windows")


class NotAModel(CliError):
    """The path holds nothing that can be registered as a model."""

    exit_code = ExitCode.MODEL_UNREADABLE

    def __init__(self, *, path: Path, reason: str, advice: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} cannot be added as a model: {reason}. {advice}")


class PathMissing(CliError):
    """The path given does not exist."""

    exit_code = ExitCode.NOT_FOUND

    def __init__(self, *, path: Path) -> None:
        self.path = path
        super().__init__(f"there is no file or directory {path}. Check the spelling; paths may be relative.")


class ModelfileInvalid(CliError):
    """A Modelfile has a mistake."""

    exit_code = ExitCode.USAGE

    def __init__(self, *, path: Path, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        super().__init__(f"{path}, line {line}: {reason}")


class PartUnavailable(CliError):
    """The pinned engine or model cannot be had on this machine."""

    exit_code = ExitCode.PART_UNAVAILABLE


class ExtraMissing(CliError):
    """A command needs an optional dependency that is not installed."""

    exit_code = ExitCode.PART_UNAVAILABLE

    def __init__(self, *, module: str, extra: str) -> None:
        self.module = module
        super().__init__(
            f"this command needs the Python package '{module}', which is not installed. "
            f"Install it with `uv pip install 'blazar-cli[{extra}]'`, or run the command as "
            f"`uvx --from 'blazar-cli[{extra}]' blazar demo`."
        )


class NoAccounts(CliError):
    """``login`` and ``signin`` refuse, by design."""

    exit_code = ExitCode.REFUSED

    def __init__(self) -> None:
        super().__init__("Blazar has no accounts and no cloud: there is nothing to sign in to.")


class EngineInUse(CliError):
    """The engine serves models at this moment."""

    def __init__(self, *, tag: str, models: tuple[str, ...]) -> None:
        self.tag = tag
        self.models = models
        stops = ", ".join(f"`blazar stop {shlex.quote(model)}`" for model in models)
        super().__init__(f"engine '{tag}' is in use by {', '.join(models)}. Unload first: {stops}.")


class EngineOrphaned(CliError):
    """No daemon runs, but processes of the engine do: a daemon was killed and could not take them down."""

    def __init__(self, *, tag: str, pids: tuple[int, ...]) -> None:
        self.tag = tag
        self.pids = pids
        numbers = ", ".join(map(str, pids))
        super().__init__(
            f"engine '{tag}' still has processes of a daemon that was killed (pid {numbers}). "
            "Start the daemon once with `blazar serve`, which ends them, and remove the engine then."
        )


class ServiceManagerMissing(CliError):
    """Neither systemd nor launchd is here."""

    def __init__(self, *, program: str) -> None:
        self.program = program
        super().__init__(
            f"`{program}` is not on this system, so no service can be installed. "
            "`blazar service print` shows the unit; or start `blazar serve` from whatever starts your programs."
        )


class ServiceManagerFailed(CliError):
    """The service manager refused."""

    def __init__(self, *, command: str, said: str, file: Path) -> None:
        self.command = command
        super().__init__(
            f"`{command}` failed: {said}. The service is described in {file}; correct what it complains about and "
            "run the command again."
        )


class AgentMissing(CliError):
    """The agent that should be started is not installed."""

    exit_code = ExitCode.NOT_FOUND

    def __init__(self, *, title: str, command: str, install: str, agent: str) -> None:
        self.command = command
        super().__init__(
            f"{title} is not installed: there is no program `{command}` on the PATH. Install it with `{install}`, "
            f"then repeat this; or see what it would be told with `blazar launch {agent} --print`."
        )


class AgentKeyMissing(CliError):
    """The daemon asks for a key, and none that is readable here opens."""

    exit_code = ExitCode.REFUSED

    def __init__(self, *, url: str, said: str) -> None:
        self.url = url
        super().__init__(
            f"the agent needs a key for {url}, and none is known here that works (the daemon says: {said}) "
            "Make one with `blazar keys add agents` and pass it as BLAZAR_API_KEY."
        )


class AgentModelUnclear(CliError):
    """It is not clear which model an agent should get, or the one that was named cannot answer."""

    exit_code = ExitCode.USAGE

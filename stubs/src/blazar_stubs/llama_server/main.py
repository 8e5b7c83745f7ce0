"""The program: decide what was asked for, and do that."""

import os
import sys
import time

from blazar_stubs.llama_server.flags import CommandLine, UsageError, parse_help
from blazar_stubs.llama_server.knobs import KnobError, Knobs
from blazar_stubs.llama_server.probes import devices_text, help_text, version_text
from blazar_stubs.llama_server.scripts import Playbook

_HELP = frozenset(["-h", "--help", "--usage"])
_MISUSED = 64
"""Exit code when a test asks for a knob that does not exist (sysexits.h, EX_USAGE)."""


def main() -> None:
    """Entry point; ends the process."""
    argv = sys.argv[1:]
    try:
        code = _run(sys.argv[0], argv)
    except KnobError as error:
        sys.stderr.write(f"{error}\n")
        code = _MISUSED
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # Nothing is left to clean up, and the interpreter's own teardown takes longer than upstream's exit.
    os._exit(code)


def _run(executable: str, argv: list[str]) -> int:
    playbook = Playbook(executable, _value_after(argv, ("-m", "--model")), os.environ)
    knobs = playbook.knobs
    if _probe(argv, knobs):
        return knobs.get("probe_exit_code", 0)
    line = CommandLine(parse_help(help_text(knobs)), argv, os.environ)
    for warning in line.warnings:
        sys.stderr.write(warning + "\n")
    # Imported here: a probe answers in half the time without them.
    from blazar_stubs.llama_server.record import Recorder
    from blazar_stubs.llama_server.serving import Process
    from blazar_stubs.llama_server.settings import Settings

    settings = Settings(line)
    if not settings.model_path:
        from blazar_stubs.llama_server.router_mode import run_router

        return run_router(settings)
    keep = playbook.is_scripted and knobs.get("events", True)
    recorder = Recorder(settings.model_path, keep_file=keep)
    recorder.spawned([executable, *argv], os.environ)
    return Process(settings, playbook, recorder).run()


def _probe(argv: list[str], knobs: Knobs) -> bool:
    """Answer a question about the program itself, if that is what was asked."""
    asked = set(argv)
    if not asked & {*_HELP, "--version", "--list-devices"}:
        return False
    time.sleep(knobs.get("probe_delay_s", 0.0))
    if "--version" in asked:
        sys.stderr.write(version_text(knobs))
    elif "--list-devices" in asked:
        sys.stdout.write(devices_text(knobs))
    else:
        sys.stdout.write(help_text(knobs))
    return True


def _value_after(argv: list[str], spellings: tuple[str, ...]) -> str:
    for position, word in enumerate(argv[:-1]):
        if word in spellings:
            return argv[position + 1]
    return os.environ.get("LLAMA_ARG_MODEL", "")


if __name__ == "__main__":
    main()

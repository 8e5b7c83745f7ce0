"""What a command says when the operating system refuses something that no command foresaw."""

import errno
import os
import sys

from blazar_cli.exit_codes import ExitCode


def tell(error: OSError) -> ExitCode:
    """Say what the system refused, give up standard output, and return the exit status.

    A reader that left (``blazar logs | head``) is told nothing: it wanted no more.
    """
    if error.errno != errno.EPIPE:
        sys.stderr.write(f"{describe_refusal(error)}\n")
    # What is still buffered has nowhere to go; the interpreter would try once more while it ends, and complain.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
    return ExitCode.FAILED


def describe_refusal(error: OSError) -> str:
    """Return what happened, where, and what to do about it."""
    said = (error.strerror or str(error) or type(error).__name__).lower()
    where = f" at {os.fsdecode(error.filename)!r}" if isinstance(error.filename, str | bytes) else ""
    return f"the system refused{where}: {said}. {_advice(error.errno)}"


def _advice(number: int | None) -> str:
    match number:
        case errno.ENOSPC | errno.EDQUOT:
            return "Make room there, or write to another place, and run the command again."
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return "Correct the permissions, or choose another place (`blazar doctor` lists the directories)."
        case errno.ENAMETOOLONG:
            return "Check the spelling: no file can have so long a name."
        case _:
            return "`blazar doctor` checks the directories, the engine and the models."

"""The entry of the ``blazar`` command: answers ``blazar version`` itself, hands everything else on."""

import sys

from blazar_cli import VERSION


def main() -> int:
    """Run the command line in ``sys.argv`` and return its exit status (see ``blazar_cli.exit_codes``)."""
    try:
        status = _answer(sys.argv[1:])
        # Here, where a full disk or a reader that left can still be told; at its end the interpreter only complains.
        sys.stdout.flush()
    except OSError as error:
        # Whatever the system refused and no command foresaw: a name too long, a disk full, no permission.
        from blazar_cli.system_refusals import tell

        return tell(error)
    return status


def _answer(arguments: list[str]) -> int:
    # The two ways people ask for the version must not wait for the import of click and rich.
    if arguments in (["version"], ["--version"]):
        sys.stdout.write(f"blazar {VERSION}\n")
        return 0
    from blazar_cli.app import run_command_line  # see above: imports click

    return run_command_line(arguments)


if __name__ == "__main__":
    sys.exit(main())

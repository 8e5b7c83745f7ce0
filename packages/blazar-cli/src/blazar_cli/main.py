"""The entry of the ``blazar`` command: answers ``blazar version`` itself, hands everything else on."""

import sys

from blazar_cli import VERSION


def main() -> int:
    """Run the command line in ``sys.argv`` and return its exit status (see ``blazar_cli.exit_codes``)."""
    arguments = sys.argv[1:]
    # The two ways people ask for the version must not wait for the import of click and rich.
    if arguments in (["version"], ["--version"]):
        sys.stdout.write(f"blazar {VERSION}\n")
        return 0
    from blazar_cli.app import run_command_line  # see above: imports click

    return run_command_line(arguments)


if __name__ == "__main__":
    sys.exit(main())

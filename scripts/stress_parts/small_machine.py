"""``blazar``, on a machine that has as little memory as it is told: what the admission of models is tried with.

Run as a program: ``small_machine.py BYTES serve …``. Everything else is the daemon that users have.
"""

import sys
from functools import partial

from blazar_budget import Machine
from blazar_cli import daemon
from blazar_cli.main import main
from blazar_supervisor import EngineHost

if __name__ == "__main__":
    size = int(sys.argv.pop(1))
    machine = Machine(ram_total=size, ram_available=size)
    setattr(daemon, "EngineHost", partial(EngineHost, machine=lambda: machine))  # noqa: B010 - no part of its interface
    sys.exit(main())

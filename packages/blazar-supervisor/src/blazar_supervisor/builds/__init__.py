"""Engine builds: registering a user's own binary (the *local* lane)."""

from blazar_supervisor.builds.local import add_local
from blazar_supervisor.builds.probe import LocalBinary, probe_binary

__all__ = ["LocalBinary", "add_local", "probe_binary"]

"""The ``blazar`` command, and the one place where gateway, supervisor and store are wired together.

Nothing is imported here: ``blazar version`` has to start as fast as Python itself.
"""

__all__ = ["VERSION"]

VERSION = "0.1.0"
"""The version of this distribution; ``importlib.metadata`` would cost a command 70 ms to find out."""

"""The names of instances and of their children; the one place that knows the grammar.

A model may run as several instances, each with flags of its own: the plain one (``m``), one that sees (``m@vision``)
and one that makes vectors (``m@embed``). Requests wait for an instance, in one line each. An instance may run as
several children that serve the same line, its replicas: ``m``, ``m#2``, ``m#3``. A model's name holds neither ``#``
nor the words behind ``@``, so every key can be read back.
"""

from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What an instance is for; the value follows ``@`` in its name."""

    PLAIN = ""
    VISION = "vision"
    EMBED = "embed"


@dataclass(frozen=True, slots=True)
class Instance:
    """A child's key, taken apart.

    Attributes:
        model: The model row's name.
        role: What it is for.
        replica: Which of the children that serve the same line, from 1.
    """

    model: str
    role: Role = Role.PLAIN
    replica: int = 1

    @property
    def line(self) -> str:
        """The instance's name: what requests wait for."""
        return f"{self.model}@{self.role}" if self.role else self.model

    @property
    def key(self) -> str:
        """The child's key: the first child of a line has the line's own name."""
        return self.line if self.replica == 1 else f"{self.line}#{self.replica}"


def instance_name(model: str, role: Role = Role.PLAIN) -> str:
    """Return the name of a model's instance."""
    return Instance(model, role).line


def child_key(line: str, replica: int) -> str:
    """Return the key of the ``replica``-th child of an instance, counted from 1."""
    return line if replica == 1 else f"{line}#{replica}"


def parse_instance(key: str) -> Instance:
    """Return a child's key, or an instance's name, taken apart; what has no mark is a plain model."""
    line, mark, number = key.rpartition("#")
    replica = int(number) if mark and number.isascii() and number.isdecimal() else 1
    if not mark:
        line = key
    for role in (Role.VISION, Role.EMBED):
        if line.endswith(f"@{role}"):
            return Instance(line.removesuffix(f"@{role}"), role, replica)
    return Instance(line, Role.PLAIN, replica)


def model_of(key: str) -> str:
    """Return the model row's name in a child's key or an instance's name."""
    return parse_instance(key).model if "@" in key or "#" in key else key

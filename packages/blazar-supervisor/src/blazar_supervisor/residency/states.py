"""The states of a child, and the one table of what may follow what."""

from enum import StrEnum


class ChildState(StrEnum):
    """Where a child is in its life.

    ``failed`` is remembered for listings only: the next request starts anew. There is no object for ``absent``
    between two lives.
    """

    ABSENT = "absent"
    STARTING = "starting"
    READY = "ready"
    SLEEPING = "sleeping"
    DRAINING = "draining"
    STOPPING = "stopping"
    FAILED = "failed"


TRANSITIONS: dict[ChildState, frozenset[ChildState]] = {
    # Somebody asks for the model.
    ChildState.ABSENT: frozenset({ChildState.STARTING}),
    # It comes up; it dies or cannot be started; it is stopped first; or nobody wants it any more (called off).
    ChildState.STARTING: frozenset(
        {
            ChildState.READY,
            ChildState.FAILED,
            ChildState.STOPPING,
            ChildState.ABSENT,
        }
    ),
    ChildState.READY: frozenset(
        {
            ChildState.SLEEPING,
            ChildState.DRAINING,
            ChildState.STOPPING,
            ChildState.FAILED,
        }
    ),
    # Waking is a start: it takes memory and time, and it may fail.
    ChildState.SLEEPING: frozenset(
        {
            ChildState.STARTING,
            ChildState.READY,
            ChildState.STOPPING,
            ChildState.FAILED,
        }
    ),
    # Its requests end (or are revoked), or it dies meanwhile.
    ChildState.DRAINING: frozenset({ChildState.STOPPING}),
    # Whatever its end looks like, a child that was told to stop ends as absent: that is no crash.
    ChildState.STOPPING: frozenset({ChildState.ABSENT}),
    ChildState.FAILED: frozenset({ChildState.ABSENT}),
}
"""Every legal step."""


class IllegalTransition(AssertionError):
    """A step that the table does not have: a fault of the supervisor itself."""


def check_transition(before: ChildState, after: ChildState) -> None:
    """Raise unless the table has the step.

    Raises:
        IllegalTransition: It does not.
    """
    if after not in TRANSITIONS[before]:
        raise IllegalTransition(f"a child cannot go from {before} to {after}")

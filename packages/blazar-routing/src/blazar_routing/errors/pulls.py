"""Refusals and failures of fetching a model; whoever fetches words the text, down to what to type next."""

from blazar_routing.errors.base import LaneError


class PullRefused(LaneError):
    """What was asked for cannot be fetched as it was asked: a name that says nothing, or a place it may not go to."""

    code = "pull-refused"


class PullNotFound(LaneError):
    """There is no such repository, variant or file where it was looked for."""

    code = "pull-not-found"


class PullFailed(LaneError):
    """The download did not end well; what had arrived is kept, and the same command goes on with it."""

    code = "pull-failed"

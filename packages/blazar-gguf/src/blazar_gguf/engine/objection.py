"""What a rule answers when the engine would not load the file."""

from blazar_gguf.types import LoadPrediction, Prediction


def refusal(rule: str, reason: str, *, build_specific: bool = False) -> LoadPrediction:
    """The engine prints an error and exits.

    Args:
        rule: stable kebab-case name.
        reason: what is wrong, for a person.
        build_specific: another build of the engine may well load the file (a newer architecture or tensor type).
    """
    return LoadPrediction(Prediction.REFUSES, reason, rule, build_specific)


def abortion(rule: str, reason: str) -> LoadPrediction:
    """The engine kills its own process; the file must not be given to it."""
    return LoadPrediction(Prediction.ABORTS, reason, rule)

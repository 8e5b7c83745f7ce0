"""Sentences of the residency, each in one place."""

from blazar_supervisor.residency.pools import Bytes


def pinned_verdict(need: Bytes, pinned: tuple[str, ...]) -> str:
    """Return why there is no room although something could be unloaded: the budget's own words are for the rest."""
    wanted = _amount(need)
    if not pinned:
        return (
            f"it needs {wanted}, more than this machine has free of other programs. "
            "Lower `ctx`, use a quantized `cache_type_k` and `cache_type_v`, put fewer layers on the GPU, "
            "or take a smaller model."
        )
    names = " and ".join(f"'{name}'" for name in pinned)
    verb = "is" if len(pinned) == 1 else "are"
    return (
        f"it needs {wanted}, and {names} {verb} kept loaded for ever (keep_alive -1). "
        f"Unload with `blazar stop {pinned[0]}`, or give it a keep_alive that ends."
    )


def gentle_verdict(victims: tuple[str, ...]) -> str:
    """Return why a model that nobody has asked for yet is not loaded."""
    names = " and ".join(f"'{name}'" for name in victims)
    verb = "is" if len(victims) == 1 else "are"
    return (
        f"there would be room only if {names} {verb} unloaded, and a [[preload]] makes no other model go. "
        "It is loaded when somebody asks for it. Lower its `ctx`, or take a model out of [[preload]]."
    )


def _amount(need: Bytes) -> str:
    parts = [f"{need.host / (1 << 30):.1f} GiB of memory"] if need.host or not need.device else []
    if need.device:
        parts.append(f"{need.device / (1 << 30):.1f} GiB on the GPU")
    return " and ".join(parts)

"""The soak, in short: everything but memory, for which a few hundred calls prove nothing."""

import json

import pytest

from soak_parts.mix import Expect, mixture
from soak_parts.verdict import Soaked, soak


def test_the_mixture_is_what_it_is_said_to_be() -> None:
    calls = list(mixture(calls=20_000, keys=100, names=100, seed=1))
    share = {
        "streams": sum(b'"stream":true' in call.body for call in calls),
        "leaving": sum(call.expect is Expect.LEAVE for call in calls),
        "engine errors": sum(call.kind.startswith(("fail", "break")) for call in calls),
    }
    for what, wanted in (("streams", 0.20), ("leaving", 0.05), ("engine errors", 0.02)):
        assert share[what] / len(calls) == pytest.approx(wanted, abs=0.01), what
    assert len({call.key for call in calls}) == 101, "every key, and a wrong one"
    unknown = {json.loads(call.body)["model"] for call in calls if call.kind == "unknown model"}
    assert len(unknown) == 100


@pytest.mark.promise("serve:nothing-left")
def test_nothing_is_left_of_mixed_calls() -> None:
    """Field case BC-59, in short; `scripts/soak` is the whole of it."""
    soaked = soak(calls=800, keys=40, clients=12, seed=3, tell=lambda _: None)
    assert not soaked.problems(memory=False), soaked.as_text()
    assert isinstance(soaked, Soaked)
    assert soaked.sent[1] > 5_000

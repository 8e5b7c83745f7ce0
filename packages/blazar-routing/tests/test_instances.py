"""The grammar of instance names and child keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_routing.instances import Instance, Role, child_key, instance_name, model_of, parse_instance

NAMES = st.text(min_size=1).filter(lambda name: "#" not in name and "@vision" not in name and "@embed" not in name)


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ("m", Instance("m")),
        ("m#2", Instance("m", Role.PLAIN, 2)),
        ("m@vision", Instance("m", Role.VISION)),
        ("m@embed", Instance("m", Role.EMBED)),
        ("m@embed#3", Instance("m", Role.EMBED, 3)),
        ("org/m:q4@other", Instance("org/m:q4@other")),
        ("m@visionary", Instance("m@visionary")),
    ],
)
def test_a_key_is_taken_apart_and_put_together(key: str, parts: Instance) -> None:
    assert parse_instance(key) == parts
    assert parts.key == key
    assert model_of(key) == parts.model


@given(model=NAMES, role=st.sampled_from(Role), replica=st.integers(1, 300))
def test_every_key_of_a_legal_name_can_be_read_back(model: str, role: Role, replica: int) -> None:
    instance = Instance(model, role, replica)
    assert parse_instance(instance.key) == instance
    assert instance.line == instance_name(model, role)
    assert instance.key == child_key(instance.line, replica)
    assert model_of(instance.key) == model

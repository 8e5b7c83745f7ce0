"""Two models, room for one, clients that want both: what `scripts/stress` does at length with the real engine."""

from pathlib import Path

import pytest

from blazar_stubs import install_stub, write_stub_model
from stress_parts.clients import Kind, Mix, Order, Result
from stress_parts.house import house
from stress_parts.report import Batch, Stress, share
from stress_parts.stress import stress


@pytest.mark.promise("switch:nothing-fails")
def test_clients_that_want_two_models_at_once_are_all_served(tmp_path: Path) -> None:
    # Each model says that it holds more than the room there is beside the other.
    script = {"memory": {"model_mib": 2000}, "token_delay_s": 0.01, "load_delay_s": 0.1}
    models = {name: write_stub_model(tmp_path / f"{name}.gguf", script=script).path for name in ("one", "other")}
    with house(install_stub(tmp_path / "engine"), models) as served:
        outcome = stress(served, seconds=240.0, clients=8, tokens=(2, 8), seed=7, requests=48)
        assert outcome.failed() == []
        assert len(outcome.results) >= 48
        assert outcome.loads >= 2
        assert {result.order.kind for result in outcome.results} == set(Kind)
        assert {result.order.model for result in outcome.results} == {"one", "other"}
        assert all(result.tokens for result in outcome.results if not result.left)
        assert {model: batch.answers >= 48 for model, batch in outcome.batches.items()} == {"one": True, "other": True}
        assert "failed | 0" in outcome.as_text()
        for resident in served.daemon.residents():
            assert resident["in_flight"] == 0
            assert resident["waiting"] == 0


def result(model: str, *, wait_s: float | None = 1.0, problem: str = "", left: bool = False) -> Result:
    order = Order(model, Kind.ABORT if left else Kind.PLAIN, "x", 8, 1.0)
    return Result(order, began_s=0.0, wait_s=wait_s, took_s=2.0, tokens=8, problem=problem, left=left)


def test_the_best_order_is_each_model_s_answers_at_its_own_speed_and_one_load_each() -> None:
    outcome = Stress(
        results=[*[result("a")] * 10, *[result("b")] * 20, result("a", left=True), result("b", problem="status 500")],
        seconds=60.0,
        loads=5,
        batches={"a": Batch(10.0, 2.0, 10, 80), "b": Batch(10.0, 3.0, 20, 160)},
        machine_load=2.0,
        cores=2,
    )
    assert outcome.ideal_s() == pytest.approx(2.0 + 10.0 + 3.0 + 10.0)
    plain = outcome.as_plain()
    assert plain["of_ideal"] == pytest.approx(25 / 60, abs=0.001)
    assert plain["swaps_per_minute"] == 4.0
    assert plain["answers_per_minute"] == 30.0
    assert [one["problem"] for one in outcome.as_plain()["failed"]] == ["status 500"]  # type: ignore[attr-defined]
    assert "b plain at 0 s: status 500" in outcome.as_text()


@pytest.mark.parametrize(
    ("values", "part", "expected"),
    [([], 0.95, 0.0), ([1.0], 0.95, 1.0), ([float(n) for n in range(1, 101)], 0.95, 95.0), ([1.0, 2.0], 1.0, 2.0)],
)
def test_a_share_of_the_waits_stays_within_it(values: list[float], part: float, expected: float) -> None:
    assert share(values, part) == expected


def test_the_same_seed_asks_the_same() -> None:
    first, second = (Mix(("a", "b"), tokens=(8, 32), seed=7) for _ in range(2))
    assert [first.order(n) for n in range(50)] == [second.order(n) for n in range(50)]
    kinds = [first.order(n, model="a") for n in range(50)]
    assert {order.model for order in kinds} == {"a"}
    assert Kind.ABORT not in {order.kind for order in kinds}

"""``blazar explain`` with the daemon down; the same with one is an end-to-end test."""

import json

import pytest

from blazar_budget import Machine
from blazar_cli.testing import User
from blazar_stubs import install_stub

GIB = 1 << 30


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Machine(ram_total=64 * GIB, ram_available=60 * GIB)
    monkeypatch.setattr("blazar_budget.probe.probe_memory", lambda: measured)


def ready(user: User, settings: str = "") -> None:
    user.ok("engine", "add-local", install_stub(user.root / "engine"))
    user.add_model("m", context_length=8192)
    user.config_file.write_text(settings)


def test_it_tells_the_shape_the_lanes_the_command_and_the_verdict(user: User) -> None:
    ready(user, '[models.m]\nthreads = 3\naliases = ["gpt-4o"]')
    facts = user.json("explain", "gpt-4o")
    assert (facts["model"], facts["shape"], facts["told_by"]) == ("m", "a GGUF file", "the weights are .gguf files")
    assert facts["lanes"] == [
        {
            "engine": "local",
            "kind": "llamacpp",
            "place": 1,
            "reason": "the active build of the first kind in order",
        }
    ]
    assert facts["missing_kinds"] == ["mistralrs"]
    plan = facts["plan"]
    assert (plan["engine"], plan["context_tokens"], plan["slots"], plan["verdict"]) == ("local", 8192, 4, "fit")
    assert plan["argv"][0].endswith("llama-server")
    assert " ".join(plan["argv"]).count("-t 3") == 1
    assert plan["need_host_bytes"] > 0
    assert facts["error"] is None


def test_people_read_the_same(user: User) -> None:
    ready(user)
    shown = user.ok("explain", "m")
    for words in ("a GGUF file", "CHOICE", "the active build", "mistralrs", "8192 tokens, 4 at a time", "--alias m"):
        assert words in shown


@pytest.mark.parametrize(
    ("settings", "model", "status", "code", "words"),
    [
        pytest.param("", "nobody", 6, None, "not found", id="no-such-model"),
        pytest.param('[models.m]\nengine = "b99"', "m", 2, None, "b99", id="bound-to-nothing"),
        pytest.param('[models.m]\nengine = "sglang"', "m", 7, "engine-missing", "sglang", id="bound-to-the-wrong-kind"),
        pytest.param(
            '[models.m]\nextra_args = ["--nope"]', "m", 9, "profile-rejected", "no flag '--nope'", id="unknown-argument"
        ),
        pytest.param(
            '[models.m]\nlora = ["/gone.gguf"]', "m", 9, "profile-rejected", "lora is not there", id="missing-file"
        ),
    ],
)
def test_a_refusal_is_that_of_a_request_and_decides_the_status(
    user: User, settings: str, model: str, status: int, code: str | None, words: str
) -> None:
    ready(user, settings)
    ended = user.blazar("explain", model)
    assert ended.status == status
    assert words in ended.err
    if code is None:
        return
    facts = json.loads(user.blazar("explain", model, "--json").out)
    assert facts["error"]["code"] == code
    assert ended.err.strip() == facts["error"]["message"]
    assert facts["plan"] is None
    assert facts["lanes"]


def test_what_does_not_fit_is_told_with_the_ways_out(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    ready(user)
    small = Machine(ram_total=GIB, ram_available=GIB // 4)
    monkeypatch.setattr("blazar_budget.probe.probe_memory", lambda: small)
    ended = user.blazar("explain", "m")
    assert ended.status == 8
    assert "ctx" in ended.err


def test_without_an_engine_the_missing_kinds_are_named(user: User) -> None:
    user.add_model("m")
    ended = user.blazar("explain", "m")
    assert ended.status == 7
    assert "No engine is installed" in ended.err
    assert "llamacpp, mistralrs" in ended.out

"""Models made from models while the daemon runs: their words reach the engine, their load settings its arguments."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from blazar_cli.testing import typed_gguf
from blazar_stubs import StubModel
from e2e.served import Served
from e2e.waiting import eventually

JINJA = "{% for m in messages %}{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def base(shared: Served) -> StubModel:
    return shared.add_model("overlaid")


def make(shared: Served, name: str, text: str) -> None:
    """Make a model from a Modelfile and wait until the daemon knows it."""
    file = shared.home.root / "Modelfile"
    file.write_text(text)
    shared.home.ok("create", name, "-f", file)
    eventually(lambda: name in shared.models(), what=f"the daemon knows {name}")


def forwarded(model: StubModel) -> Any:
    return json.loads(model.requests("/v1/chat/completions")[-1]["body"])


def arguments(model: StubModel) -> list[str]:
    """Return what the engine of a model was started with last."""
    words: list[str] = model.events("spawn")[-1]["argv"]
    return words


@pytest.mark.promise("row:overlay")
def test_what_a_model_is_made_with_reaches_the_engine_and_costs_no_bytes(shared: Served, base: StubModel) -> None:
    adapter = typed_gguf(shared.home.root / "lora.gguf", "adapter")
    make(
        shared,
        "poet",
        f"FROM overlaid\nSYSTEM Rhyme.\nMESSAGE user 1+1\nMESSAGE assistant 2\nPARAMETER temperature 0.25\n"
        f'PARAMETER stop END\nPARAMETER num_ctx 1024\nPARAMETER num_thread 3\nADAPTER {adapter}\nTEMPLATE """{JINJA}"""\n',
    )
    answer = shared.client.chat("poet", "hi")
    assert answer.status == 200, answer.text()
    sent = forwarded(base)
    assert [(turn["role"], turn["content"]) for turn in sent["messages"]] == [
        ("system", "Rhyme."),
        ("user", "1+1"),
        ("assistant", "2"),
        ("user", "hi"),
    ]
    assert (sent["temperature"], sent["stop"]) == (0.25, ["END"])
    words = arguments(base)
    for pair in (("-c", "1024"), ("-t", "3"), ("--lora", str(adapter)), ("--chat-template", JINJA)):
        assert pair in set(pairwise(words)), words
    assert Path(words[words.index("-m") + 1]) == base.path


@pytest.mark.promise("row:overlay")
def test_settings_of_the_model_and_words_of_the_client_beat_its_overlay(shared: Served, base: StubModel) -> None:
    # A look of the daemon reads the settings first, so they hold when the row is known.
    shared.home.configure('[models."ranked"]\nctx = 2048\n')
    make(shared, "ranked", "FROM overlaid\nPARAMETER num_ctx 1024\nPARAMETER temperature 0.25\n")
    assert shared.client.chat("ranked", "hi", temperature=1).status == 200
    assert forwarded(base)["temperature"] == 1
    words = arguments(base)
    assert words[words.index("-c") + 1] == "2048"


@pytest.mark.promise("row:overlay")
def test_a_model_that_is_made_anew_while_it_is_loaded_is_loaded_anew(shared: Served, base: StubModel) -> None:
    make(shared, "changing", "FROM overlaid\nPARAMETER num_ctx 1024\n")
    assert shared.client.chat("changing", "hi").status == 200
    # Other words need no other engine.
    make(shared, "changing", "FROM overlaid\nPARAMETER num_ctx 1024\nSYSTEM One.\n")
    spawns = base.spawns
    eventually(
        lambda: shared.client.chat("changing", "hi").status == 200 and "One." in str(forwarded(base)),
        what="the new words are used",
    )
    assert base.spawns == spawns
    make(shared, "changing", "FROM overlaid\nPARAMETER num_ctx 2048\n")
    eventually(
        lambda: not any(one["model"] == "changing" for one in shared.daemon.residents()), what="the old engine has gone"
    )
    assert shared.client.chat("changing", "hi").status == 200
    words = arguments(base)
    assert words[words.index("-c") + 1] == "2048"


@pytest.mark.promise("row:alias")
def test_an_alias_is_served_after_its_first_name_has_gone(shared: Served) -> None:
    model = shared.add_model("short-lived")
    shared.home.ok("cp", "short-lived", "second")
    eventually(lambda: "second" in shared.models(), what="the daemon knows the second name")
    assert model.path.stat().st_nlink == 2
    shared.home.ok("rm", "short-lived", "--weights")
    assert not model.path.exists()
    answer = shared.client.chat("second", "hi")
    assert answer.status == 200, answer.text()
    assert answer.json()["model"] == "second"

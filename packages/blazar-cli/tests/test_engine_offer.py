"""The tested engine is offered on a terminal, where there is none yet, and nowhere else."""

from pathlib import Path

import pytest

from blazar_cli import engine_offer
from blazar_cli.engine_offer import NO_ENGINE, offer_engine
from blazar_cli.testing import User
from blazar_stubs import install_stub


@pytest.fixture
def fetched(user: User, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was fetched; the stub stands in for the engine."""
    parts: list[str] = []

    def ensure_part(name: str, *_: object, **__: object) -> Path:
        parts.append(name)
        return Path(install_stub(user.root / "part"))

    monkeypatch.setattr(engine_offer, "ensure_part", ensure_part)
    return parts


def yes() -> bool:
    return True


def test_who_says_yes_has_an_engine_and_is_not_asked_again(user: User, fetched: list[str]) -> None:
    asked: list[str] = []

    def agree(question: str) -> bool:
        asked.append(question)
        return True

    for _ in range(2):
        offer_engine(agree, is_terminal=yes)
    assert fetched == ["engine"]
    assert len(asked) == 1
    assert "Fetch the tested llama.cpp engine" in asked[0]
    (row,) = user.json("engine", "list")
    assert (row["kind"], row["active"]) == ("llamacpp", True)


def test_who_says_no_gets_nothing(user: User, fetched: list[str]) -> None:
    offer_engine(lambda _: False, is_terminal=yes)
    assert fetched == []
    assert user.json("engine", "list") == []


def test_nobody_is_asked_in_a_pipe(user: User, fetched: list[str]) -> None:
    offer_engine(lambda _: pytest.fail("asked"))
    assert fetched == []
    assert user.json("engine", "list") == []


def test_nobody_is_asked_who_has_one(user: User, fetched: list[str]) -> None:
    user.ok("engine", "add-local", install_stub(user.root / "own"))
    offer_engine(lambda _: pytest.fail("asked"), is_terminal=yes)
    assert fetched == []


def test_what_is_said_instead_names_the_commands() -> None:
    assert "blazar engine add-local PATH" in NO_ENGINE
    assert "blazar demo" in NO_ENGINE

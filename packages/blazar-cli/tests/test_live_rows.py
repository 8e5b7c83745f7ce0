"""Rows and settings while the daemon runs."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from typing_extensions import override

from blazar_cli.catalogue import LiveCatalogue, card_of
from blazar_cli.serving.watch import EditWatch
from blazar_store.errors import DatabaseBusy
from blazar_store.layout import Layout
from blazar_store.settings import Settings, parse_settings
from blazar_store.settings_watch import SettingsWatch
from blazar_store.store import Snapshot, Store
from blazar_store.types import ModelRow
from blazar_store.writer import StoreThread

T = TypeVar("T")

ROW = ModelRow(
    name="org/model-q4",
    path=Path("/w/m.gguf"),
    shards=(Path("/w/m.gguf"),),
    mmproj_path=None,
    format="gguf",
    arch="llama",
    params=10,
    quant="Q4_0",
    ctx_train=4096,
    size_bytes=100,
    digest="0" * 64,
    capabilities=("completion", "tools"),
    engine=None,
    pulled=False,
    added_at=1,
    modified_at=2,
)


def snapshot(*rows: ModelRow) -> Snapshot:
    return Snapshot(models=rows, engines=())


@pytest.mark.parametrize(
    "spelling",
    ["org/model-q4", "org/model:q4", "org/model-q4:latest", "hf.co/org/model:q4", "ORG/Model-Q4", "org%2Fmodel-q4"],
)
def test_every_spelling_of_a_client_finds_the_row(spelling: str) -> None:
    catalogue = LiveCatalogue(snapshot(ROW))
    card, row = catalogue.find(spelling), catalogue.find_row(spelling)
    assert card is not None
    assert (card.name, row) == ("org/model-q4", ROW)


def configured(text: str) -> Settings:
    return parse_settings(text, path=Path("c"))


ALIASED = configured('[models."ORG/model-q4"]\naliases = ["gpt-4o", "Fast"]')


@pytest.mark.parametrize("spelling", ["gpt-4o", "gpt-4o:latest", "GPT-4o", "fast"])
def test_an_alias_means_its_row(spelling: str) -> None:
    catalogue = LiveCatalogue(snapshot(ROW), ALIASED)
    card = catalogue.find(spelling)
    assert card is not None
    assert (card.name, card.aliases) == ("org/model-q4", ("gpt-4o", "Fast"))
    assert catalogue.near("gpt-4") == ("gpt-4o",)


def test_an_edit_of_the_settings_reaches_the_cards() -> None:
    catalogue = LiveCatalogue(snapshot(ROW))
    assert catalogue.find("gpt-4o") is None
    catalogue.configure(ALIASED)
    assert catalogue.find("gpt-4o") is not None
    catalogue.configure(configured("[defaults.request.force]\ntop_k = 3"))
    card = catalogue.find("org/model-q4")
    assert card is not None
    assert (card.aliases, card.rules.force) == ((), {"top_k": 3})


def test_a_row_of_the_same_name_goes_before_an_alias_and_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    other = replace(ROW, name="gpt-4o")
    catalogue = LiveCatalogue(snapshot(ROW, other), ALIASED)
    sentence = (
        "the alias 'gpt-4o' of 'ORG/model-q4' means nothing: there is a model 'gpt-4o'. "
        'Take the alias out of [models."ORG/model-q4"], or give the other model another name.'
    )
    card = catalogue.find("gpt-4o")
    assert card is not None
    assert (card.name, catalogue.conflicts) == ("gpt-4o", (sentence,))
    catalogue.replace(snapshot(ROW, other))
    assert caplog.text.count(sentence) == 1
    catalogue.replace(snapshot(ROW))
    card = catalogue.find("gpt-4o")
    assert card is not None
    assert (card.name, catalogue.conflicts) == ("org/model-q4", ())


def test_an_alias_of_a_model_that_is_not_there_means_nothing() -> None:
    catalogue = LiveCatalogue(snapshot(), ALIASED)
    assert (catalogue.find("gpt-4o"), catalogue.conflicts) == (None, ())


@pytest.mark.parametrize(
    ("text", "decides"),
    [
        ("", False),
        ('[defaults]\nreasoning_effort = "low"', True),
        ("[defaults]\nchat_template_kwargs = { enable_thinking = true }", True),
        ("[defaults]\nchat_template_kwargs = { other = true }", False),
    ],
)
def test_settings_that_speak_of_thinking_decide_about_it(text: str, decides: bool) -> None:
    card = LiveCatalogue(snapshot(ROW), configured(text)).find("org/model-q4")
    assert card is not None
    assert card.rules.decides_thinking is decides


def test_a_miss_is_a_miss_with_names_that_resemble_it() -> None:
    catalogue = LiveCatalogue(snapshot(ROW))
    assert catalogue.find("org/modell-q4") is None
    assert catalogue.near("org/modell-q4") == ("org/model-q4",)


def test_a_card_says_what_the_row_says() -> None:
    card = card_of(ROW)
    assert (card.parameters, card.quantization, card.context_length) == (10, "Q4_0", 4096)
    assert (card.capabilities, card.engine) == (("completion", "tools"), "llamacpp")
    assert card_of(replace(ROW, engine="mlx")).engine == "mlx"
    assert card.template_readable
    assert not card_of(replace(ROW, template_readable=False)).template_readable


class Watched:
    """A store and a configuration file being watched, and what the watch reported."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root / "data")
        self.layout.prepare()
        self.config_file = root / "config.toml"
        self.rows: list[Snapshot] = []
        self.seen = asyncio.Event()
        self.settings: list[Settings] = []
        self.thread = StoreThread(self.layout)
        self.watch = EditWatch(
            store=self.thread,
            settings=SettingsWatch(self.config_file),
            on_rows=self._take,
            on_settings=self.settings.append,
        )

    def _take(self, rows: Snapshot) -> None:
        self.rows.append(rows)
        self.seen.set()


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    try:
        yield made
    finally:
        made.thread.close()


async def test_a_row_that_another_process_adds_is_seen_once(watched: Watched) -> None:
    await watched.watch.look()
    watched.rows.clear()
    await watched.watch.look()
    assert watched.rows == []
    with Store(watched.layout) as store:
        store.add_model(ROW)
    await watched.watch.look()
    await watched.watch.look()
    assert [[row.name for row in seen.models] for seen in watched.rows] == [["org/model-q4"]]


async def test_an_invalid_edit_changes_nothing_and_is_remembered_until_it_is_mended(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    watched.config_file.write_text("nonsense = 1\n")
    await watched.watch.look()
    await watched.watch.look()
    assert watched.settings == []
    assert "nonsense" in (watched.watch.config_error or "")
    assert caplog.text.count("not valid") == 1
    watched.config_file.write_text("idle_timeout_secs = 7\n")
    await watched.watch.look()
    assert [settings.idle_timeout_secs for settings in watched.settings] == [7]
    assert watched.watch.config_error is None


async def test_a_setting_that_needs_a_restart_is_said_to(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    watched.config_file.write_text("port = 9000\n")
    await watched.watch.look()
    assert "port will take effect at the next start" in caplog.text


async def test_a_wake_up_looks_at_once(watched: Watched) -> None:
    await watched.watch.look()
    watched.rows.clear()
    watched.seen.clear()
    task = asyncio.create_task(watched.watch.run())
    watched.watch.wake()
    try:
        await asyncio.wait_for(watched.seen.wait(), 30)
    finally:
        task.cancel()
        await asyncio.wait([task])
    # SIGHUP reads again whether or not anything changed.
    assert watched.settings


class LockedStore(StoreThread):
    """A store that another program holds."""

    @override
    def submit(self, work: Callable[[Store], T]) -> "Future[T]":
        del work
        future: Future[T] = Future()
        future.set_exception(DatabaseBusy(path=Path("/d/blazar.db"), waited_s=5))
        return future


async def test_rows_that_cannot_be_read_keep_the_former_ones_and_it_is_said_once(
    watched: Watched, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched.thread, "submit", LockedStore.submit.__get__(watched.thread))
    await watched.watch.look()
    await watched.watch.look()
    assert watched.rows == []
    assert "stayed locked" in (watched.watch.store_error or "")
    assert caplog.text.count("cannot be read") == 1
    monkeypatch.undo()
    await watched.watch.look()
    assert watched.watch.store_error is None
    assert len(watched.rows) == 1

import os
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blazar_store.catalogue import ModelIndex
from blazar_store.errors import NameReserved, NameTaken, NoSuchModel, StorageFailed
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.testing import make_model
from blazar_store.types import ModelRow


def test_row_comes_back_as_it_was_after_reopening(layout: Layout) -> None:
    row = make_model(
        "org/модель:Q4 x",
        shards=(Path("/w/a-00001-of-00002.gguf"), Path("/w/a-00002-of-00002.gguf")),
        mmproj_path=Path("/w/mmproj.gguf"),
        params=None,
        ctx_train=None,
        capabilities=("completion", "vision"),
        engine="local-2",
        pulled=True,
    )
    with Store(layout) as store:
        store.add_model(row)
    with Store(layout) as store:
        assert store.get_model(row.name) == row


def test_paths_that_are_not_utf_8_survive(store: Store) -> None:
    path = Path(os.fsdecode(b"/w/caf\xe9.gguf"))
    row = make_model("m", path=path, shards=(path,), mmproj_path=path)
    store.add_model(row)
    assert store.get_model("m") == row


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    row=st.builds(
        ModelRow,
        name=st.just("m"),
        path=st.text(st.characters(codec="utf-8"), min_size=1).map(Path),
        shards=st.lists(st.text(st.characters(codec="utf-8"), min_size=1).map(Path), min_size=1).map(tuple),
        mmproj_path=st.none() | st.text(st.characters(codec="utf-8"), min_size=1).map(Path),
        format=st.sampled_from(["gguf", "safetensors"]),
        arch=st.text(st.characters(codec="utf-8")),
        params=st.none() | st.integers(0, 2**60),
        quant=st.text(st.characters(codec="utf-8")),
        ctx_train=st.none() | st.integers(0, 2**40),
        size_bytes=st.integers(0, 2**60),
        digest=st.text(st.characters(codec="utf-8")),
        capabilities=st.lists(st.sampled_from(["completion", "tools"])).map(tuple),
        engine=st.none() | st.text(st.characters(codec="utf-8")),
        pulled=st.booleans(),
        added_at=st.integers(0, 2**40),
        modified_at=st.integers(0, 2**40),
    )
)
def test_any_row_comes_back_as_it_was(store: Store, row: ModelRow) -> None:
    store.add_model(row)
    assert store.remove_model("m") == row


def test_newest_row_is_listed_first(store: Store) -> None:
    for name, added_at in (("b", 1), ("a", 3), ("c", 2)):
        store.add_model(make_model(name, added_at=added_at))
    assert [row.name for row in store.list_models()] == ["a", "c", "b"]


@pytest.mark.parametrize("name", ["a#2", "", "x@vision", "../x", " x"])
def test_reserved_names_are_refused_at_birth_and_at_renaming(store: Store, name: str) -> None:
    store.add_model(make_model("old"))
    with pytest.raises(NameReserved):
        store.add_model(make_model(name))
    with pytest.raises(NameReserved):
        store.rename_model("old", name)
    assert [row.name for row in store.list_models()] == ["old"]


def test_replica_mark_is_refused_by_the_database_itself(store: Store) -> None:
    store.add_model(make_model("m"))
    with pytest.raises(StorageFailed, match="CHECK"):
        store._database.rows("UPDATE models SET name = 'm#2'")


@pytest.mark.parametrize("name", ["Model", "MODEL", "model"])
def test_taken_names_are_refused_whatever_their_case(store: Store, name: str) -> None:
    store.add_model(make_model("Model", quant="first"))
    with pytest.raises(NameTaken, match="the model name"):
        store.add_model(make_model(name))
    assert [row.quant for row in store.list_models()] == ["first"]


@pytest.mark.parametrize(("first", "second"), [("m", "m:latest"), ("m:latest", "m"), ("M", "m:LATEST")])
def test_a_name_and_its_latest_are_one_model_to_clients(store: Store, first: str, second: str) -> None:
    store.add_model(make_model(first))
    with pytest.raises(NameTaken, match="differs only in ':latest' from the existing"):
        store.add_model(make_model(second))
    store.add_model(make_model("other"))
    with pytest.raises(NameTaken):
        store.rename_model("other", second)
    assert store.rename_model(first, second).name == second


def test_renaming_keeps_everything_else(store: Store) -> None:
    row = make_model("old", quant="mine")
    store.add_model(row)
    renamed = store.rename_model("old", "new")
    assert (renamed.name, renamed.quant, renamed.path) == ("new", "mine", row.path)
    assert store.rename_model("new", "NEW").name == "NEW"
    assert [row.name for row in store.list_models()] == ["NEW"]


def test_renaming_onto_another_row_is_refused(store: Store) -> None:
    store.add_model(make_model("one"))
    store.add_model(make_model("two"))
    with pytest.raises(NameTaken):
        store.rename_model("one", "Two")
    with pytest.raises(NoSuchModel):
        store.rename_model("three", "four")


def test_replacing_changes_that_row_only(store: Store) -> None:
    store.add_model(make_model("one"))
    store.add_model(make_model("two"))
    store.replace_model(make_model("one", size_bytes=5))
    assert store.get_model("one").size_bytes == 5
    assert store.get_model("two") == make_model("two")
    with pytest.raises(NoSuchModel):
        store.replace_model(make_model("three"))


def test_miss_suggests_what_there_is(store: Store) -> None:
    store.add_model(make_model("smollm2"))
    with pytest.raises(NoSuchModel, match="Did you mean 'smollm2'"):
        store.get_model("smollm")
    with pytest.raises(NoSuchModel):
        store.remove_model("smollm2:latest")


NAMES = ["org/model", "org/model:Q4", "org%2Fmodel", "org", "50%", "a b", "модель", "x" * 300]


@pytest.mark.parametrize("name", NAMES)
def test_removing_by_an_encoded_name_removes_that_row_only(store: Store, name: str) -> None:
    for known in NAMES:
        store.add_model(make_model(known))
    store.remove_model(unquote(quote(name, safe="")))
    assert {row.name for row in store.list_models()} == set(NAMES) - {name}


def test_finding_follows_the_spellings_clients_use(store: Store) -> None:
    store.add_model(make_model("gemma3-270m"))
    found = store.find_model("Gemma3:270m")
    assert found is not None
    assert found.name == "gemma3-270m"
    assert store.find_model("gemma3") is None


def test_index_answers_from_memory(store: Store) -> None:
    store.add_model(make_model("smollm2"))
    index = ModelIndex(store.list_models())
    store.remove_model("smollm2")
    assert index.resolve("smollm2:latest") == "smollm2"
    assert index.resolve("other") == "other"
    assert index.find("smollm2") == make_model("smollm2")
    assert index.find("other") is None
    assert index.near("smollm") == ("smollm2",)


def test_the_parts_of_a_diffusion_model_are_kept(store: Store) -> None:
    parts = (("--diffusion-model", Path("/m/flux.gguf")), ("--vae", Path("/m/ae.safetensors")))
    store.add_model(make_model("art", components=parts))
    assert store.get_model("art").components == parts
    assert make_model("plain").components == ()

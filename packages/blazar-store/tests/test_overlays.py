"""Overlays of rows: kept without loss, merged by name, and Go templates told from Jinja."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_store.overlays import (
    LoadDefaults,
    is_go_template,
    is_jinja,
    lay_over,
    load_defaults,
    overlay_of,
    overlay_text,
)
from blazar_store.settings import ModelSettings
from blazar_store.settings_overlays import overlay_settings
from blazar_store.store import Store
from blazar_store.testing import make_model
from blazar_store.types import RowOverlay

GO = "{{ if .System }}<|system|>{{ .System }}{{ end }}<|user|>{{ .Prompt }}<|assistant|>"
JINJA = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"

texts = st.text(max_size=30)
overlays = st.builds(
    RowOverlay,
    source=texts,
    system=texts,
    messages=st.lists(st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": texts})).map(
        tuple
    ),
    parameters=st.dictionaries(texts, st.one_of(st.integers(), st.booleans(), texts, st.lists(texts))),
    template=texts,
    license=texts,
    adapters=st.lists(st.sampled_from([Path("/a.gguf"), Path("/b/\udcff.gguf")])).map(tuple),
)


@given(overlays)
def test_what_is_kept_comes_back(overlay: RowOverlay) -> None:
    assert overlay_of(overlay_text(overlay)) == overlay


def test_an_empty_one_is_kept_as_nothing() -> None:
    assert overlay_text(RowOverlay()) == "{}"
    assert overlay_of("") == RowOverlay()


def test_a_row_brings_its_overlay_along(store: Store) -> None:
    overlay = RowOverlay(source="m", system="Speak.", parameters={"temperature": 0.2, "stop": ["a"]})
    store.add_model(make_model("n", overlay=overlay))
    assert store.get_model("n").overlay == overlay
    assert store.rename_model("n", "o").overlay == overlay


@given(overlays)
def test_laying_over_nothing_and_nothing_over_it_change_nothing_but_the_source(overlay: RowOverlay) -> None:
    bare = RowOverlay(source=overlay.source)
    assert lay_over(bare, overlay) == overlay
    assert lay_over(overlay, bare) == overlay


def test_the_upper_one_wins_and_parameters_are_merged_by_name() -> None:
    beneath = RowOverlay(source="a", system="old", parameters={"temperature": 1.0, "top_k": 3}, license="MIT")
    above = RowOverlay(source="b", system="new", parameters={"temperature": 0.0})
    assert lay_over(beneath, above) == RowOverlay(
        source="b", system="new", parameters={"temperature": 0.0, "top_k": 3}, license="MIT"
    )


@pytest.mark.parametrize(
    ("template", "go", "jinja"),
    [
        pytest.param(GO, True, False, id="ollama's"),
        pytest.param("{{- range $i, $_ := .Messages }}{{ .Content }}{{ end }}", True, False, id="range"),
        pytest.param("{{/* a comment */}}{{ .Prompt }}", True, False, id="comment"),
        pytest.param("{{ $last := 1 }}x", True, False, id="variable"),
        pytest.param(JINJA, False, True, id="loop"),
        pytest.param("{{ bos_token }}{{ messages[0]['content'] }}", False, True, id="expression"),
        pytest.param("{{- messages[0].content }}", False, True, id="trimmed"),
        pytest.param("{% if x %}{{ .y }}{% endif %}", False, True, id="blocks are Jinja's alone"),
        pytest.param("You are a pirate.", False, False, id="text"),
        pytest.param("", False, False, id="nothing"),
    ],
)
def test_the_language_of_a_template(template: str, go: bool, jinja: bool) -> None:
    assert (is_go_template(template), is_jinja(template)) == (go, jinja)


@pytest.mark.parametrize(
    ("overlay", "expected"),
    [
        pytest.param(RowOverlay(), LoadDefaults(), id="nothing"),
        pytest.param(
            RowOverlay(parameters={"num_ctx": 4096, "num_gpu": 12, "num_thread": 4, "temperature": 1}),
            LoadDefaults(ctx_tokens=4096, gpu_layers=12, threads=4),
            id="parameters",
        ),
        pytest.param(
            RowOverlay(parameters={"num_gpu": -1, "num_thread": 0, "num_ctx": True}), LoadDefaults(), id="left open"
        ),
        pytest.param(RowOverlay(template=JINJA), LoadDefaults(chat_template=JINJA), id="Jinja is passed on"),
        pytest.param(RowOverlay(template=GO), LoadDefaults(), id="Go never"),
        pytest.param(RowOverlay(adapters=(Path("/a.gguf"),)), LoadDefaults(adapters=(Path("/a.gguf"),)), id="adapters"),
    ],
)
def test_what_an_overlay_asks_of_a_load(overlay: RowOverlay, expected: LoadDefaults) -> None:
    assert load_defaults(overlay) == expected


def test_an_overlay_as_settings() -> None:
    overlay = RowOverlay(parameters={"num_ctx": 4096, "num_thread": 2}, template=JINJA, adapters=(Path("/a.gguf"),))
    settings = overlay_settings(overlay)
    assert settings.model_dump(exclude_none=True) == {
        "ctx": 4096,
        "threads": 2,
        "chat_template": JINJA,
        "lora": ({"path": "/a.gguf", "scale": 1.0},),
    }
    assert overlay_settings(RowOverlay()) == ModelSettings()

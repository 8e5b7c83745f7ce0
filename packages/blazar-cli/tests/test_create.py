"""Rows made from rows: no bytes, the source's overlay beneath, refusals that teach."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import pytest

from blazar_cli.creating import create_row
from blazar_cli.modelfile.recipe import Recipe
from blazar_cli.testing import User, typed_gguf
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.types import ModelRow
from blazar_stubs import write_stub_model

JINJA = "{% for m in messages %}<think>{{ m.content }}</think>{% endfor %}"


def row(user: User, name: str) -> ModelRow:
    with Store(Layout(user.data_dir)) as store:
        return store.get_model(name)


def write(user: User, text: str) -> Path:
    path = user.root / "Modelfile"
    path.write_text(text)
    return path


def test_a_model_is_made_from_another_without_copying_its_weights(user: User) -> None:
    weights = user.add_model("base", context_length=8192)
    before = set(user.root.rglob("*.gguf"))
    file = write(user, 'FROM base\nPARAMETER temperature 0.5\nPARAMETER num_ctx 2048\nSYSTEM """Be\nbrief."""\n')
    out = user.ok("create", "brief", "-f", file)
    assert "Made model 'brief' from base, without copying weights." in out
    made = row(user, "brief")
    assert (made.path, made.ctx_train, made.pulled) == (weights, 8192, False)
    assert made.overlay.system == "Be\nbrief."
    assert made.overlay.parameters == {"temperature": 0.5, "num_ctx": 2048}
    assert set(user.root.rglob("*.gguf")) == before
    shown = user.ok("show", "brief")
    assert "made from        base" in shown
    assert "temperature 0.5" in shown
    assert user.ok("show", "brief", "--system") == "Be\nbrief.\n"


def test_an_overlay_lies_on_the_one_of_its_source(user: User) -> None:
    user.add_model("base")
    user.ok("create", "a", "-f", write(user, "FROM base\nSYSTEM One.\nPARAMETER top_k 3\nPARAMETER seed 1\n"))
    user.ok("create", "b", "-f", write(user, "FROM a\nSYSTEM Two.\nPARAMETER seed 2\n"))
    overlay = row(user, "b").overlay
    assert (overlay.source, overlay.system, overlay.parameters) == ("a", "Two.", {"top_k": 3, "seed": 2})


def test_what_show_writes_makes_the_same_model_again(user: User) -> None:
    user.add_model("base")
    adapter = typed_gguf(user.root / "lora.gguf", "adapter")
    text = (
        f'FROM base\nADAPTER {adapter.name}\nTEMPLATE """{JINJA}"""\nMESSAGE user hi\nPARAMETER stop x\nLICENSE MIT\n'
    )
    user.ok("create", "one", "-f", write(user, text))
    again = user.root / "again"
    again.write_text(user.ok("show", "one", "--modelfile"))
    user.ok("create", "two", "-f", again)
    one, two = row(user, "one"), row(user, "two")
    assert one.overlay.adapters == (adapter,)
    assert two.path == one.path
    assert {**vars_of(two), "source": ""} == {**vars_of(one), "source": ""}


def vars_of(made: ModelRow) -> dict[str, object]:
    return {name: getattr(made.overlay, name) for name in made.overlay.__slots__}


def test_a_jinja_template_decides_what_the_model_can_do(user: User) -> None:
    user.add_model("base", chat_template="{{ messages }}")
    user.ok("create", "thinker", "-f", write(user, f'FROM base\nTEMPLATE """{JINJA}"""\n'))
    assert row(user, "thinker").capabilities == ("completion", "thinking")
    assert "its own (Jinja)" in user.ok("show", "thinker")
    assert user.ok("show", "thinker", "--template").rstrip() == JINJA
    assert user.ok("show", "base", "--template").rstrip() == "{{ messages }}"


def test_a_go_template_is_kept_for_show_and_that_is_said(user: User) -> None:
    user.add_model("base")
    ended = user.blazar("create", "go", "-f", write(user, "FROM base\nTEMPLATE {{ .System }} {{ .Prompt }}\n"))
    assert ended.status == 0
    assert "it is kept for `blazar show`" in ended.err
    assert user.ok("show", "go", "--template") == "{{ .System }} {{ .Prompt }}\n"
    assert "the engine uses the one in the file" in user.ok("show", "go")


def test_a_file_next_to_the_modelfile_is_a_source_too(user: User) -> None:
    folder = user.root / "models"
    folder.mkdir()
    write_stub_model(folder / "new.gguf")
    typed_gguf(folder / "mmproj.gguf", "mmproj")
    file = folder / "Modelfile"
    file.write_text("FROM ./new.gguf\nFROM ./mmproj.gguf\nSYSTEM Look.\n")
    user.ok("create", "new", "-f", file)
    made = row(user, "new")
    assert (made.path, made.mmproj_path) == (folder / "new.gguf", folder / "mmproj.gguf")
    assert "vision" in made.capabilities


def test_a_model_that_is_made_by_several_at_once_is_made_by_each(user: User) -> None:
    user.add_model("base")
    layout, together = Layout(user.data_dir), Barrier(4)

    def make(system: str) -> str:
        together.wait(timeout=60)
        return create_row(layout, "made", Recipe(source="base", system=system), base_dir=user.root).row.overlay.system

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(make, "abcd")) == ["a", "b", "c", "d"]
    assert row(user, "made").overlay.system in set("abcd")


def test_a_directory_of_the_name_does_not_keep_a_source_from_being_pulled(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    (user.root / "org" / "repo").mkdir(parents=True)
    done = user.blazar("create", "n", "-f", write(user, "FROM org/repo\n"))
    assert "does not list org/repo" in done.err


def test_from_on_the_command_line_beats_the_modelfile(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.add_model("base")
    user.add_model("other")
    monkeypatch.chdir(user.root)
    file = write(user, "FROM base\nSYSTEM Hi.\n")
    user.ok("create", "n", "--from", "other", "-f", file)
    assert row(user, "n").path == user.root / "other.gguf"
    user.ok("create", "bare", "--from", "other")
    assert row(user, "bare").overlay.system == ""
    user.ok("create", "usual")
    assert row(user, "usual").overlay.system == "Hi."


def test_a_made_model_is_made_anew_and_one_with_weights_of_its_own_is_not(user: User) -> None:
    user.add_model("base")
    user.add_model("other")
    user.ok("create", "n", "-f", write(user, "FROM base\nSYSTEM One.\n"))
    assert "anew" in user.ok("create", "N", "-f", write(user, "FROM other\nSYSTEM Two.\n"))
    assert (row(user, "n").path.name, row(user, "n").overlay.system) == ("other.gguf", "Two.")
    ended = user.blazar("create", "other", "--from", "base")
    assert ended.status == 1
    assert "is taken already" in ended.err
    # Its own weights with other words are no loss.
    user.ok("create", "base", "-f", write(user, "FROM base\nSYSTEM Three.\n"))
    assert row(user, "base").overlay.system == "Three."


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        pytest.param("SYSTEM x\n", 2, "what it is made from is missing", id="no FROM"),
        pytest.param("FROM bas\n", 6, "model 'bas' not found. Did you mean 'base'?", id="no such model"),
        pytest.param("FROM ./no.gguf\n", 6, "no.gguf", id="no such file"),
        pytest.param("FROM base\nTEMPLATE Be brief.\n", 2, "neither Jinja nor one of Ollama's", id="template"),
        pytest.param("FROM base\nADAPTER base.gguf\n", 12, "given as an adapter", id="adapter"),
        pytest.param("FROM base\nADAPTER no.gguf\n", 6, "no.gguf", id="no adapter"),
        pytest.param("FROM base\nFROM base.gguf\n", 12, "given as a projector", id="projector"),
        pytest.param("FROM base\nPARAMETER warp 9\n", 2, "Modelfile, line 2: unknown parameter 'warp'", id="parameter"),
        pytest.param("FROM base\nSYTEM x\n", 2, "Modelfile, line 2: 'SYTEM' is no instruction", id="instruction"),
    ],
)
def test_what_cannot_be_made_is_refused(user: User, text: str, status: int, words: str) -> None:
    user.add_model("base")
    ended = user.blazar("create", "n", "-f", write(user, text))
    assert ended.status == status, ended
    assert words in ended.err
    assert [known["name"] for known in user.json("list")] == ["base"]


def test_a_modelfile_that_is_not_there_or_is_no_file(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(user.root)
    assert user.blazar("create", "n").status == 2
    assert user.blazar("create", "n", "-f", "nowhere").status == 6
    ended = user.blazar("create", "n", "-f", user.root)
    assert ended.status == 2
    assert "cannot be read" in ended.err


def test_weights_that_were_pulled_stay_until_nobody_needs_them(user: User) -> None:
    path = user.add_model("base")
    with Store(Layout(user.data_dir)) as store:
        store.replace_model(replace(store.get_model("base"), pulled=True))
    user.ok("create", "n", "--from", "base")
    assert f"Its files stay, for n: {path}" in user.ok("rm", "base")
    assert path.exists()
    user.ok("rm", "n")
    assert not path.exists()


def test_a_parameter_without_effect_is_told_by_its_own_name(user: User) -> None:
    user.add_model("base")
    told = user.blazar("create", "a", "-f", write(user, "FROM base\nPARAMETER use_mmap true\n"))
    assert "Parameter use_mmap is kept and has no effect: " in told.err

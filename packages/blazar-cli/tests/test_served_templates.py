"""What a model can do by the template that will serve it."""

from dataclasses import replace
from pathlib import Path

import pytest

from blazar_cli.catalogue import LiveCatalogue
from blazar_cli.served_templates import as_served
from blazar_store.settings import Settings
from blazar_store.settings_files import load_settings
from blazar_store.store import Snapshot
from blazar_store.types import ModelRow, RowOverlay

ROW = ModelRow(
    name="m",
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
    capabilities=("completion", "vision"),
    engine=None,
    pulled=False,
    added_at=1,
    modified_at=2,
)
TOOLS = "{% if tools %}{{ tools }}{% endif %}"
PLAIN = "{{ messages }}"


def settings_of(folder: Path, text: str) -> Settings:
    path = folder / "config.toml"
    path.write_text(text)
    return load_settings(path)


@pytest.mark.parametrize(
    ("text", "capabilities", "readable"),
    [
        pytest.param("", ("completion", "vision"), True, id="the file's"),
        pytest.param(
            "[models.m]\nchat_template = '{% if tools %}<think>{% endif %}'",
            ("completion", "tools", "thinking", "vision"),
            True,
            id="text",
        ),
        pytest.param(
            "[defaults]\nchat_template = '{{ tools }}'", ("completion", "tools", "vision"), True, id="defaults"
        ),
        pytest.param(
            "[models.other]\nchat_template = '{{ tools }}'", ("completion", "vision"), True, id="another model's"
        ),
        pytest.param("[models.m]\nchat_template = 'chatml'", ("completion", "vision"), False, id="built in"),
        pytest.param(
            "[models.m]\nchat_template_file = 'HERE/t.jinja'", ("completion", "tools", "vision"), True, id="file"
        ),
        pytest.param(
            "[models.m]\nchat_template_file = 'HERE/none.jinja'", ("completion", "vision"), False, id="no such file"
        ),
        pytest.param("[models.m]\nchat_template_file = 'HERE'", ("completion", "vision"), False, id="a directory"),
        pytest.param("[models.m]\nchat_template_file = 'HERE/bytes'", ("completion", "vision"), False, id="no text"),
        pytest.param(
            "[models.m]\nextra_args = ['--chat-template-file', '/t']", ("completion", "vision"), False, id="argument"
        ),
    ],
)
def test_the_template_that_will_serve_decides(
    tmp_path: Path, text: str, capabilities: tuple[str, ...], *, readable: bool
) -> None:
    (tmp_path / "t.jinja").write_text(TOOLS)
    (tmp_path / "bytes").write_bytes(b"{{ \xff }}")
    served = as_served(ROW, settings_of(tmp_path, text.replace("HERE", str(tmp_path))))
    assert (served.capabilities, served.template_readable) == (capabilities, readable)


def test_a_setting_goes_before_an_overlay_and_an_overlay_before_the_file(tmp_path: Path) -> None:
    overlaid = replace(ROW, overlay=RowOverlay(template=TOOLS))
    assert "tools" in as_served(overlaid, settings_of(tmp_path, "")).capabilities
    configured = settings_of(tmp_path, f"[models.m]\nchat_template = '{PLAIN}'")
    assert "tools" not in as_served(overlaid, configured).capabilities


def test_a_template_takes_away_too(tmp_path: Path) -> None:
    knows = replace(ROW, capabilities=("completion", "tools", "thinking", "insert"))
    served = as_served(knows, settings_of(tmp_path, f"[models.m]\nchat_template = '{PLAIN}'"))
    assert served.capabilities == ("completion", "insert")


def test_what_has_no_chats_stays_as_it_is(tmp_path: Path) -> None:
    embedder = replace(ROW, capabilities=("embedding",))
    assert as_served(embedder, settings_of(tmp_path, "[defaults]\nchat_template = '{{ tools }}'")) == embedder


def test_the_catalogue_follows_the_settings(tmp_path: Path) -> None:
    catalogue = LiveCatalogue(Snapshot(models=(ROW,), engines=()))
    catalogue.configure(settings_of(tmp_path, "[models.m]\nchat_template = '{{ tools }}'"))
    card = catalogue.find("m")
    assert card is not None
    assert card.capabilities == ("completion", "tools", "vision")

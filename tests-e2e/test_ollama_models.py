"""Model rows through Ollama's own client: listed, shown, copied, created, uploaded, removed; as `ollama` does it."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ollama
import pytest

from blazar_stubs import StubModel, write_stub_model
from e2e.served import Served
from e2e.waiting import eventually

GO_TEMPLATE = "{{ if .System }}<s>{{ .System }}</s>{{ end }}<u>{{ .Prompt }}</u>"


@pytest.fixture
def client(served: Served) -> Iterator[ollama.Client]:
    with ollama.Client(host=served.daemon.url) as client:
        yield client


def asked(model: StubModel) -> Any:
    return json.loads(model.requests("/v1/chat/completions")[-1]["body"])


@pytest.mark.promise("ollama:rows")
def test_a_life_of_a_model_as_the_command_line_of_ollama_leads_it(served: Served, client: ollama.Client) -> None:
    model = served.add_model("base", tools=True, context_length=8192)

    (listed,) = client.list().models
    assert (listed.model, listed.details.format if listed.details else "") == ("base", "gguf")
    shown = client.show("base")
    assert shown.modelinfo is not None
    assert shown.modelinfo["general.architecture"] == "llama"
    assert shown.modelinfo["llama.context_length"] == 8192
    assert shown.modelinfo["tokenizer.ggml.tokens"] is None
    assert shown.capabilities == ["completion", "tools"]
    assert "messages" in (shown.template or "")

    # run
    assert client.chat("base", [{"role": "user", "content": "hello"}]).message.content
    chunks = list(client.generate("base", "hello", stream=True))
    assert chunks[-1].done
    assert chunks[-1].total_duration
    (loaded,) = client.ps().models
    assert (loaded.model, loaded.size_vram) == ("base", 0)
    assert loaded.context_length
    assert loaded.expires_at

    # cp
    assert client.copy("base", "twin").status == "success"
    assert [row.model for row in client.list().models] == ["twin", "base"]
    assert client.chat("twin:latest", [{"role": "user", "content": "hello"}]).message.content

    # stop
    client.generate("base", keep_alive=0)
    eventually(lambda: "base" not in [one.model for one in client.ps().models], what="it is unloaded")

    # create
    steps = [
        step.status
        for step in client.create(
            "pirate",
            from_="base",
            system="Talk like a pirate.",
            template=GO_TEMPLATE,
            parameters={"temperature": 0.25, "stop": ["arr"]},
            messages=[{"role": "user", "content": "Who?"}, {"role": "assistant", "content": "Jack."}],
            license="MIT",
            stream=True,
        )
    ]
    assert steps[-1] == "success"
    made = client.show("pirate")
    assert (made.template, made.license) == (GO_TEMPLATE, "MIT")
    assert "SYSTEM" in (made.modelfile or "")
    assert "temperature" in (made.parameters or "")
    assert made.details is not None
    assert made.details.parent_model == "base"
    client.chat("pirate", [{"role": "user", "content": "hello"}])
    body = asked(model)
    assert [turn["content"] for turn in body["messages"]] == ["Talk like a pirate.", "Who?", "Jack.", "hello"]
    assert (body["temperature"], body["stop"]) == (0.25, ["arr"])
    # Ollama's template is shown, and never handed to an engine.
    assert not any("{{" in str(argument) for event in model.events("spawn") for argument in event["argv"])

    # rm
    for name in ("pirate", "twin"):
        assert client.delete(name).status == "success"
    assert [row.model for row in client.list().models] == ["base"]
    assert model.path.is_file()
    with pytest.raises(ollama.ResponseError, match="not found") as caught:
        client.show("pirate")
    assert caught.value.status_code == 404


@pytest.mark.promise("ollama:rows")
def test_what_cannot_be_is_refused_in_words(served: Served, client: ollama.Client) -> None:
    served.add_model("base")
    with pytest.raises(ollama.ResponseError, match="never uploads anything") as caught:
        client.push("base")
    assert caught.value.status_code == 400
    with pytest.raises(ollama.ResponseError, match="neither 'from' or 'files' was specified"):
        client.create("x")
    with pytest.raises(ollama.ResponseError, match="not found"):
        client.create("x", from_="nobody")
    with pytest.raises(ollama.ResponseError, match="quantise"):
        client.create("x", from_="base", quantize="q4_0")
    with pytest.raises(ollama.ResponseError, match="neither Jinja nor"):
        client.create("x", from_="base", template="no placeholder at all")
    with pytest.raises(ollama.ResponseError, match="base"):
        client.copy("base", "BASE")
    with pytest.raises(ollama.ResponseError, match="not found"):
        client.copy("nobody", "other")
    with pytest.raises(ollama.ResponseError, match="not found"):
        client.delete("nobody")
    assert [row.model for row in client.list().models] == ["base"]


@pytest.mark.promise("ollama:blobs")
def test_a_file_is_uploaded_checked_and_made_a_model(served: Served, client: ollama.Client, tmp_path: Path) -> None:
    path: Path = write_stub_model(tmp_path / "mine.gguf").path
    digest = f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
    wrong = f"sha256:{'0' * 64}"
    http = served.client

    assert http.call("HEAD", f"/api/blobs/{digest}").status == 404
    refused = http.call("POST", f"/api/blobs/{wrong}", path.read_bytes())
    assert refused.status == 400
    assert f"digest mismatch, expected {wrong}, got {digest}" in refused.body.decode()
    assert http.call("HEAD", f"/api/blobs/{wrong}").status == 404
    assert not list((served.home.data_dir / "uploads").iterdir())

    assert client.create_blob(path) == digest
    assert http.call("HEAD", f"/api/blobs/{digest}").status == 200
    assert http.call("POST", f"/api/blobs/{digest}", path.read_bytes()).status == 200
    client.create("uploaded", files={"mine.gguf": digest}, system="Be brief.")
    assert client.show("uploaded").modelinfo
    assert client.chat("uploaded", [{"role": "user", "content": "hello"}]).message.content
    client.delete("uploaded")
    # The row's files were links of ours; the upload itself stays for another create.
    assert not list((served.home.data_dir / "models" / "created").rglob("*.gguf"))
    with pytest.raises(ollama.ResponseError, match="was not uploaded"):
        client.create("other", files={"mine.gguf": wrong})
    with pytest.raises(ollama.ResponseError, match="cannot be a file's name"):
        client.create("other", files={"../mine.gguf": digest})


@pytest.mark.promise("ollama:num-ctx")
def test_a_context_that_is_asked_for_is_what_the_model_is_loaded_with(served: Served, client: ollama.Client) -> None:
    served.add_model("long", context_length=131_072)
    client.chat("long", [{"role": "user", "content": "hello"}])
    (before,) = client.ps().models
    assert before.context_length is not None
    wanted = before.context_length + 5000
    client.chat("long", [{"role": "user", "content": "hello"}], options={"num_ctx": wanted})
    (after,) = client.ps().models
    assert after.context_length is not None
    assert after.context_length >= wanted


@pytest.mark.promise("thinking:unreadable")
def test_thinking_is_refused_without_markers_and_let_through_where_they_cannot_be_read(
    served: Served, client: ollama.Client
) -> None:
    plain: Any = {"role": "user", "content": "hello"}
    served.add_model("plain", tools=True)
    with pytest.raises(ollama.ResponseError, match="does not support thinking"):
        client.chat("plain", [plain], think=True)
    served.add_model("odd", chat_template="{% for m in messages %}{{ m.content }}{% endfor %}\ufffd")
    assert client.chat("odd", [plain], think=True).message.content

"""A model's settings as its engine and its clients meet them."""

import json
from typing import Any

import pytest

from blazar_cli.exit_codes import ExitCode
from blazar_stubs import StubModel
from e2e.home import Home
from e2e.served import Served, add_stub_model, serving
from e2e.waiting import eventually


def arguments(model: StubModel) -> str:
    """Return what the engine of a model was started with last."""
    words: list[str] = model.events("spawn")[-1]["argv"]
    return " ".join(words)


def forwarded(model: StubModel, path: str = "/v1/chat/completions") -> Any:
    return json.loads(model.requests(path)[-1]["body"])


@pytest.mark.promise("config:knobs")
def test_knobs_reach_the_engine_and_its_wishes_are_merged(stub_home: Home) -> None:
    stub_home.configure(
        """
        [defaults]
        threads = 2
        samplers = "top_k;typical;temp"
        [models.m]
        deterministic = true
        context_shift = true
        ubatch = 256
        spec = "ngram-mod"
        spec_ngram_mod_n_match = 12
        """
    )
    model = add_stub_model(stub_home, "m")
    with serving(stub_home) as daemon:
        assert daemon.client.chat("m").status == 200
    words = arguments(model)
    for flags in (
        "-np 1",
        "-ub 256",
        "-t 2",
        "--samplers top_k;typ_p;temperature",
        "--context-shift",
        "--spec-type ngram-mod --spec-ngram-mod-n-match 12",
    ):
        assert flags in words
    assert "-kvu" not in words


@pytest.mark.promise("config:knobs")
@pytest.mark.parametrize(
    ("setting", "words"),
    [
        pytest.param('extra_args = ["--port=80"]', "'--port' cannot stand in extra_args", id="owned"),
        pytest.param('extra_args = ["--nope"]', "no flag '--nope'", id="unknown"),
        pytest.param('spec_draft_model = "/gone.gguf"', "spec_draft_model is not there: /gone.gguf", id="file"),
    ],
)
def test_what_cannot_be_used_is_refused_in_the_same_words_everywhere(stub_home: Home, setting: str, words: str) -> None:
    stub_home.configure(f"[models.m]\n{setting}\n")
    model = add_stub_model(stub_home, "m")
    down = stub_home.blazar("explain", "m")
    with serving(stub_home) as daemon:
        answer = daemon.client.chat("m")
        up = stub_home.blazar("explain", "m")
    assert answer.status == 400
    message = answer.json()["error"]["message"]
    assert words in message
    assert message == up.stderr.strip() == down.stderr.strip()
    assert up.returncode == down.returncode == ExitCode.CONFIG_INVALID
    assert model.events("spawn") == []


@pytest.mark.promise("command:explain")
def test_explain_says_what_is_then_started(served: Served) -> None:
    model = served.add_model("m")
    plan = served.home.json("explain", "m")["plan"]
    assert model.events("spawn") == []
    assert served.client.chat("m").status == 200
    started: list[str] = model.events("spawn")[-1]["argv"]
    # Apart from address and secret, and the prompt cache, which is fitted to what is spare at the start.
    planned = [word for word in plan["argv"][1:] if word not in {"--cache-ram", str(plan["prompt_cache_mb"])}]
    assert [word for word in planned if word not in started] == []
    missing = served.home.blazar("explain", "nobody")
    assert missing.returncode == ExitCode.NOT_FOUND
    assert served.client.chat("nobody").json()["error"]["message"] == missing.stderr.strip()


@pytest.mark.promise("config:reaches-running")
def test_an_edit_replaces_an_idle_engine_by_itself_and_an_idle_time_reaches_it(served: Served) -> None:
    model = served.add_model("m")
    assert served.client.chat("m").status == 200
    [first] = served.home.json("ps")
    served.home.configure("[models.m]\nidle_timeout_secs = 900\n")
    eventually(
        lambda: 0 < served.home.json("ps")[0]["expires_in_s"] <= 900, what="the idle time reaches the running engine"
    )
    assert served.home.json("ps")[0]["pid"] == first["pid"]
    served.home.configure("[models.m]\nthreads = 3\n")
    eventually(lambda: served.home.json("ps") == [], what="the idle engine goes")
    assert served.client.chat("m").status == 200
    assert "-t 3" in arguments(model)


@pytest.mark.promise("row:aliases")
@pytest.mark.promise("request:rules")
def test_aliases_and_rules_hold_in_every_api(served: Served) -> None:
    model = served.add_model("m")
    served.home.configure(
        """
        [models.m]
        aliases = ["gpt-4o"]
        [models.m.request]
        strip = ["seed"]
        [models.m.request.default]
        top_k = 5
        [models.m.request.force]
        temperature = 0.25
        """
    )
    eventually(lambda: "gpt-4o" in served.models(), what="the alias is listed")
    said = [{"role": "user", "content": "hi"}]
    asks: list[tuple[str, dict[str, Any]]] = [
        ("/v1/chat/completions", {"messages": said, "temperature": 1, "seed": 7}),
        ("/v1/responses", {"input": "hi", "temperature": 1}),
        ("/v1/messages", {"messages": said, "max_tokens": 5, "temperature": 1}),
        ("/api/chat", {"messages": said, "stream": False, "options": {"temperature": 1, "seed": 7}}),
        ("/api/generate", {"prompt": "hi", "stream": False, "options": {"temperature": 1, "seed": 7}}),
    ]
    for path, body in asks:
        answer = served.client.post(path, {"model": "gpt-4o", **body})
        assert answer.status == 200, (path, answer.text())
        sent = forwarded(model)
        assert (sent["model"], sent["temperature"], sent["top_k"], sent.get("seed")) == ("m", 0.25, 5, None), path
    assert [row["model"] for row in served.home.json("ps")] == ["m"]
    served.home.ok("stop", "gpt-4o")


@pytest.mark.promise("load:unix-sockets")
def test_engines_are_reached_over_unix_sockets_where_that_is_set(stub_home: Home) -> None:
    stub_home.configure('child_transport = "unix"\n')
    model = add_stub_model(stub_home, "a-rather-long-name-" + "x" * 100)
    name = model.path.stem
    with serving(stub_home) as daemon:
        assert daemon.client.chat(name).status == 200
        words: list[str] = model.events("spawn")[-1]["argv"]
    assert words[words.index("--host") + 1].endswith(".sock")
    assert "--port" not in words

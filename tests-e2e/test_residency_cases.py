"""What users of such servers reported, as tests: tools, keep_alive, deletions, engines that change or break (BC-…)."""

import itertools
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from blazar_stubs import install_stub
from blazar_stubs.models import TOOL_TEMPLATE
from e2e.http import chat_body
from e2e.served import Served
from e2e.waiting import eventually

WEATHER = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


# --- BC-14: "does not support tools" for a model that does -----------------------------------------------------------


@pytest.mark.promise("model:facts")
def test_tools_are_listed_and_forwarded_for_a_model_whose_template_has_them(served: Served) -> None:
    model = served.add_model("with", tools=True)
    served.add_model("without")
    for name, has in (("with", True), ("without", False)):
        shown = served.client.post("/api/show", {"model": name}).json()["capabilities"]
        (tagged,) = [tag for tag in served.client.get("/api/tags").json()["models"] if tag["name"] == name]
        assert ("tools" in shown, "tools" in tagged["capabilities"]) == (has, has)
    body = chat_body("with", "weather?", tools=[WEATHER], tool_choice="required")
    (choice,) = served.client.post("/v1/chat/completions", body).json()["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "weather"
    assert json.loads(model.requests("/v1/chat/completions")[-1]["body"])["tools"] == [WEATHER]
    refused = served.client.post("/v1/chat/completions", chat_body("without", tools=[WEATHER]))
    assert (refused.status, refused.json()["error"]["param"]) == (400, "tools")
    assert '"without" does not support tools' in refused.json()["error"]["message"]


@pytest.mark.promise("model:facts")
def test_the_template_that_will_serve_decides_about_tools(served: Served) -> None:
    served.add_model("m")
    template = served.home.root / "tools.jinja"
    template.write_text(TOOL_TEMPLATE)
    body = chat_body("m", "weather?", tools=[WEATHER], tool_choice="required")
    assert served.client.post("/v1/chat/completions", body).status == 400
    served.home.configure(f"[models.m]\nchat_template_file = '{template}'")
    eventually(lambda: "tools" in served.client.post("/api/show", {"model": "m"}).json()["capabilities"], what="shown")
    assert "tools" in json.loads(served.home.ok("models", "show", "m", "--json"))["capabilities"]
    (choice,) = served.client.post("/v1/chat/completions", body).json()["choices"]
    assert choice["message"]["tool_calls"][0]["function"]["name"] == "weather"


# --- BC-19: every spelling of keep_alive, the same on both routes ----------------------------------------------------

SPELLINGS: list[tuple[object, float | None]] = [
    (300, 300.0),
    (-1, None),
    (-1.0, None),
    ("300", 300.0),
    ("-1", None),
    ("-1m", None),
    ("5m", 300.0),
    ("1h30m", 5400.0),
    ("24h", 86_400.0),
    ("90s", 90.0),
    ("1.5h", 5400.0),
    (1e12, None),
]
ROUTES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"max_tokens": 1},
    "/api/chat": {"stream": False, "options": {"num_predict": 1}},
}


@pytest.mark.promise("instance:keep-alive")
def test_every_spelling_of_keep_alive_is_the_same_countdown_on_both_routes(served: Served) -> None:
    served.add_model("m")
    for (given, seconds), (path, fields) in itertools.product(SPELLINGS, ROUTES.items()):
        answer = served.client.post(path, chat_body("m", keep_alive=given, **fields))
        assert answer.status == 200, (path, given)
        # Absent, null and empty change nothing that was said before.
        for nothing in ({}, {"keep_alive": None}, {"keep_alive": ""}):
            assert served.client.post(path, chat_body("m", **fields, **nothing)).status == 200
        (entry,) = served.daemon.residents()
        left = entry["expires_in_s"]
        if seconds is None:
            assert left is None, (path, given)
        else:
            assert left is not None
            # A slow machine may have taken its time since.
            assert seconds - 60 < float(left) <= seconds, (path, given)
    for given in ("5x", "forever", True):
        for path, fields in ROUTES.items():
            refused = served.client.post(path, chat_body("m", keep_alive=given, **fields))
            assert refused.status == 400
            assert "1h30m" in str(refused.json())
    for given, (path, fields) in itertools.product((0, "0", "0s"), ROUTES.items()):
        assert served.client.post(path, chat_body("m", keep_alive=given, **fields)).status == 200
        eventually(lambda: not served.daemon.residents(), what="it has gone after the answer")


# --- BC-22: delete, or change engine version, while loaded -----------------------------------------------------------


@pytest.mark.promise("model:known-at-once")
def test_a_model_that_is_removed_while_it_answers_finishes_and_leaves_no_resident(served: Served) -> None:
    model = served.add_model("m", script={"token_delay_s": 0.05})
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(served.client.chat, "m", max_tokens=40)
        eventually(lambda: model.requests("/v1/chat/completions"), what="it answers")
        removing = pool.submit(served.home.ok, "models", "rm", "m")
        assert answer.result().status == 200
        removing.result()
    assert served.daemon.residents() == []
    assert not served.daemon.engines()
    assert served.client.chat("m").status == 404


@pytest.mark.promise("engine:in-use")
def test_another_engine_serves_new_loads_and_what_runs_stays_on_its_own(served: Served) -> None:
    served.add_model("old", script={"token_delay_s": 0.05})
    served.add_model("pinned")
    served.add_model("new")
    assert served.client.chat("pinned", max_tokens=1, keep_alive=-1).status == 200
    (first,) = served.home.json("engine", "list")
    other = install_stub(served.home.root / "other engine")
    served.home.ok("engine", "add-local", other)
    (second,) = [row for row in served.home.json("engine", "list") if row["tag"] != first["tag"]]
    with ThreadPoolExecutor(1) as pool:
        streaming = pool.submit(served.client.chat, "old", max_tokens=60)
        eventually(lambda: len(served.daemon.residents()) == 2, what="it is loaded")
        served.home.ok("engine", "use", second["tag"])
        assert served.client.chat("new", max_tokens=1).status == 200
        engines = {entry["child"]: entry["engine"] for entry in served.daemon.residents()}
        assert engines == {"old": first["tag"], "pinned": first["tag"], "new": second["tag"]}
        refused = served.home.blazar("engine", "rm", first["tag"])
        assert refused.returncode != 0
        assert "pinned" in refused.stderr
        assert streaming.result().status == 200
    for name in ("old", "pinned"):
        served.home.ok("stop", name)
    served.home.ok("engine", "rm", first["tag"])
    assert served.client.chat("pinned", max_tokens=1).status == 200
    assert {entry["engine"] for entry in served.daemon.residents()} == {second["tag"]}


# --- BC-27: engines that break when a request is dropped -------------------------------------------------------------


@pytest.mark.promise("cancel:fragile-engine")
@pytest.mark.parametrize("drained", [True, False], ids=["drained", "dropped"])
def test_others_survive_a_client_that_leaves_a_fragile_engine_if_its_answer_is_read_on(
    served: Served, *, drained: bool
) -> None:
    table = '[models."m"]\nabandoned_drain_secs = 60\n' if drained else ""
    served.home.configure(f"stream_ping_secs = 1\n{table}")
    script = {"exit_on_disconnect": 3, "n_tokens": 80, "token_delay_s": 0.05}
    model = served.add_model("m", script={"requests": [script]})
    # With a limit all four fit into the context at once.
    body = chat_body("m", stream=True, max_tokens=80)

    def read_on(_: int) -> bytes:
        with served.client.open("POST", "/v1/chat/completions", body) as response:
            return response.read()

    with ThreadPoolExecutor(3) as pool:
        others = pool.map(read_on, range(3))
        with served.client.open("POST", "/v1/chat/completions", body) as response:
            eventually(lambda: len(model.requests("/v1/chat/completions")) == 4, what="all four are answered")
            response.read(10)
        ends = [b"[DONE]" in answer for answer in others]
    assert all(ends) == drained
    if drained:
        eventually(lambda: served.daemon.residents()[0]["in_flight"] == 0, what="its slot is free again")
        assert model.spawns == 1


# --- BC-28: many first requests, one spawn ---------------------------------------------------------------------------


@pytest.mark.promise("load:once")
def test_aliases_and_spellings_are_one_spawn(served: Served) -> None:
    served.home.configure('stream_ping_secs = 1\n[models."org-m-q4"]\naliases = ["fast", "daily", "gpt-4o"]\n')
    model = served.add_model("org-m-q4", script={"load_delay_s": 0.5})
    names = ("org-m-q4", "org-m:q4", "org-m-q4:latest", "fast", "daily", "gpt-4o")

    def ask(number: int) -> int:
        return served.client.chat(names[number % len(names)], temperature=number / 20, max_tokens=2).status

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(ask, range(20))) == {200}
    assert model.spawns == 1
    served.home.ok("stop", "org-m-q4")
    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(ask, range(6))) == {200}
    assert model.spawns == 2

"""A model is loaded once however many ask, its failures teach, and it goes again when nobody asks."""

import itertools
import os
import random
import stat
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar_cli.exit_codes import ExitCode
from e2e.daemon import Daemon
from e2e.home import Home
from e2e.served import Served, add_stub_model, serving
from e2e.waiting import eventually

SPELLINGS = ("org-model-q4", "org-model:q4", "org-model-q4:latest", "ORG-Model-Q4")


@pytest.mark.promise("load:once")
def test_twenty_first_requests_at_once_are_one_spawn(served: Served) -> None:
    model = served.add_model("org-model-q4", script={"load_delay_s": 0.5})

    def ask(number: int) -> int:
        name = SPELLINGS[number % len(SPELLINGS)]
        return served.client.chat(name, temperature=number / 20, max_tokens=2).status

    with ThreadPoolExecutor(20) as pool:
        assert set(pool.map(ask, range(20))) == {200}
    assert model.spawns == 1
    assert len(served.daemon.engines()) == 1


@pytest.mark.promise("load:once")
def test_clients_that_leave_during_the_load_do_not_stop_it_for_the_others(served: Served) -> None:
    model = served.add_model("m", script={"load_delay_s": 1.5})
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    leavers = [served.client.send_raw(head + body) for _ in range(5)]
    with ThreadPoolExecutor(5) as pool:
        stayers = [pool.submit(served.client.chat, "m", max_tokens=2) for _ in range(5)]
        eventually(lambda: model.spawns, what="the load has begun")
        for leaver in leavers:
            leaver.close()
        assert {stayer.result().status for stayer in stayers} == {200}
    assert model.spawns == 1


@pytest.mark.promise("load:once")
def test_after_an_unload_the_next_request_is_one_spawn_again(served: Served) -> None:
    model = served.add_model("m")
    assert served.client.chat("m").status == 200
    served.home.ok("stop", "m")
    eventually(lambda: not served.daemon.engines(), what="the engine has ended")
    with ThreadPoolExecutor(8) as pool:
        assert {answer.status for answer in pool.map(lambda _: served.client.chat("m"), range(8))} == {200}
    assert model.spawns == 2


@pytest.mark.promise("load:once")
def test_round_after_round_with_clients_that_come_and_go_it_is_one_spawn_a_round(served: Served) -> None:
    model = served.add_model("m", script={"load_delay_s": 0.2})
    body = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    order = random.Random(28)

    def come(number: int, after_s: float) -> int:
        # Arrivals at odd moments, some of them before, some after the engine is ready.
        time.sleep(after_s)
        if number % 5:
            return served.client.chat("m", max_tokens=2).status
        served.client.send_raw(head + body).close()
        return 200

    with ThreadPoolExecutor(20) as pool:
        for number in range(1, 6):
            delays = [order.uniform(0, 0.4) for _ in range(20)]
            assert set(pool.map(come, range(20), delays)) == {200}
            served.home.ok("stop", "m")
            eventually(lambda: not served.daemon.engines(), what="the engine has ended")
            assert model.spawns == number


@pytest.mark.promise("load:idle")
def test_a_model_that_nobody_asks_is_unloaded(home: Home, stub_home: Home) -> None:
    home.configure("idle_timeout_secs = 1\n")
    add_stub_model(home, "m")
    with serving(home) as daemon:
        assert daemon.client.chat("m").status == 200
        eventually(lambda: not daemon.engines(), what="the idle model is unloaded")
        assert daemon.residents() == []
        assert daemon.client.chat("m").status == 200


@pytest.mark.promise("load:idle")
def test_listings_and_health_neither_load_nor_keep_a_model(served: Served) -> None:
    model = served.add_model("m")
    for path in ("/", "/healthz", "/health", "/v1/models", "/api/tags", "/api/ps", "/api/version"):
        assert served.client.get(path).status == 200
    assert model.spawns == 0


@pytest.mark.promise("load:secret")
def test_each_engine_has_a_secret_that_dies_with_it(served: Served) -> None:
    model = served.add_model("m")
    assert served.client.chat("m").status == 200
    secret = served.home.run_dir / "m.apikey"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    value = secret.read_text(encoding="utf-8").strip()
    assert len(value) >= 32
    (engine,) = served.daemon.engines()[-1:]
    assert value not in " ".join(engine.cmdline())
    sent = dict(model.requests("/v1/chat/completions")[-1]["headers"])
    assert value in {name.lower(): text for name, text in sent.items()}["authorization"]
    served.home.ok("stop", "m")
    eventually(lambda: not secret.exists(), what="the secret is gone")


@pytest.mark.promise("load:secret")
def test_a_client_s_own_key_does_not_reach_the_engine(served: Served) -> None:
    model = served.add_model("m")
    headers = {"Authorization": "Bearer client-secret", "X-Api-Key": "client-secret"}
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    assert served.client.post("/v1/chat/completions", body, headers=headers).status == 200
    sent = list(itertools.chain.from_iterable(model.requests("/v1/chat/completions")[-1]["headers"]))
    assert not any("client-secret" in text for text in sent)


@pytest.mark.promise("load:clean-environment")
def test_an_engine_does_not_inherit_what_would_change_it(
    home: Home, stub_home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"LLAMA_ARG_CTX_SIZE": "512", "LLAMA_API_KEY": "x", "HF_TOKEN": "hf_x", "AIP_MODE": "1"}.items():
        monkeypatch.setenv(name, value)
    model = add_stub_model(home, "m")
    with serving(home) as daemon:
        assert daemon.client.chat("m").status == 200
        environment = model.events("spawn")[0]["environ"]
    assert not {"LLAMA_ARG_CTX_SIZE", "LLAMA_API_KEY", "HF_TOKEN", "AIP_MODE"} & set(environment)
    assert environment["PATH"] == os.environ["PATH"]


@pytest.mark.promise("load:own-session")
def test_an_engine_has_a_session_of_its_own(served: Served) -> None:
    served.add_model("m")
    assert served.client.chat("m").status == 200
    engine = served.daemon.engines()[0]
    assert os.getsid(engine.pid) == engine.pid
    assert os.getsid(engine.pid) != os.getsid(served.daemon.process.pid)


@pytest.mark.promise("load:slots")
def test_slots_and_context_are_always_told_to_the_engine(served: Served) -> None:
    model = served.add_model("m", context_length=8192)
    assert served.client.chat("m").status == 200
    argv = model.events("spawn")[0]["argv"]
    assert argv[argv.index("-np") + 1] == "4" if "-np" in argv else argv[argv.index("--parallel") + 1] == "4"
    (resident,) = served.home.json("ps")
    assert resident["context_length"] == 8192
    assert resident["slots"] == 4


@pytest.mark.promise("load:failure-teaches")
def test_a_load_that_fails_quotes_the_engine_s_last_lines_everywhere_alike(served: Served) -> None:
    lines = ["0.00.100.000 E ggml_zork: the frobnicator is out of order", "0.00.101.000 E srv main: exiting"]
    served.add_model("m", script={"crash": {"text": lines, "exit_code": 1}})
    answer = served.client.chat("m")
    assert answer.status == 500
    error = answer.json()["error"]
    assert error["code"] == "load_failed"
    assert "the frobnicator is out of order" in error["message"]
    assert "Traceback" not in error["message"]
    shown = served.home.blazar("run", "m", "hi")
    assert shown.returncode == ExitCode.ENGINE
    assert "the frobnicator is out of order" in shown.stderr


@pytest.mark.promise("load:failure-teaches")
@pytest.mark.parametrize(
    ("line", "status", "taught"),
    [
        pytest.param("error loading model: unknown model architecture: 'llama'", 400, "'llama'", id="architecture"),
        pytest.param("quantized V cache requires flash_attn to be enabled", 500, "flash", id="cache type"),
        pytest.param(
            "tensor 'token_embd.weight' data is not within the file bounds, model is corrupted or incomplete",
            500,
            "incomplete",
            id="cut short",
        ),
    ],
)
def test_a_failure_that_is_known_is_explained(served: Served, line: str, status: int, taught: str) -> None:
    served.add_model("m", script={"crash": {"text": [f"0.00.100.000 E llama: {line}"], "exit_code": 1}})
    answer = served.client.chat("m")
    assert answer.status == status, answer.text()
    assert taught in answer.json()["error"]["message"]


@pytest.mark.promise("load:no-engine")
def test_without_an_engine_the_refusal_says_how_to_get_one(home: Home) -> None:
    add_stub_model(home, "m")
    with serving(home) as daemon:
        _refused_for_want_of_an_engine(daemon)


def _refused_for_want_of_an_engine(daemon: Daemon) -> None:
    answer = daemon.client.chat("m")
    assert answer.status == 400
    error = answer.json()["error"]
    assert error["code"] == "engine_missing"
    assert "blazar engine add-local PATH" in error["message"]


@pytest.mark.promise("load:unknown-model")
def test_an_unknown_model_is_a_404_that_names_near_ones(served: Served) -> None:
    served.add_model("smollm2")
    answer = served.client.chat("smolm2")
    assert answer.status == 404
    error = answer.json()["error"]
    assert error["code"] == "model_not_found"
    assert "smollm2" in error["message"]
    assert "not found" in error["message"]


@pytest.mark.promise("load:new-rows")
def test_a_model_added_while_the_daemon_runs_is_served_and_one_removed_is_not(served: Served) -> None:
    served.add_model("m")
    assert served.client.chat("m").status == 200
    served.home.ok("models", "rm", "m")
    eventually(lambda: served.client.chat("m").status == 404, what="the removed model is gone")

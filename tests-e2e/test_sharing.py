"""A machine shared by several keys: by weight when it is full, and with accounts that outlive a killed daemon."""

import json
import signal
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from blazar_store.key_secrets import hash_secret
from e2e.home import Home
from e2e.http import Client, chat_body
from e2e.served import add_stub_model, serving
from e2e.waiting import eventually

WEIGHTS = {"a": 1, "b": 2, "c": 4}
SERVED = 70
"""Requests looked at: few enough that each key still has some in line when the last of them is served."""
IN_LINE = {"a": 16, "b": 26, "c": 50}


def bearer(name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {name}-secret"}


def key_table(name: str, **limits: int) -> str:
    lines = [f'name = "{name}"', f'hash = "{hash_secret(f"{name}-secret")}"']
    return "\n".join(["[[keys]]", *lines, *(f"{limit} = {value}" for limit, value in limits.items())]) + "\n"


def waiting(client: Client, name: str) -> int:
    """Return how many requests stand in line, all models together."""
    return sum(int(model["waiting"]) for model in client.get("/api/ps", headers=bearer(name)).json()["models"])


@pytest.mark.promise("admit:weights")
def test_keys_get_their_shares_of_a_saturated_engine(home: Home, stub_home: Home) -> None:
    keys = "".join(key_table(name, weight=weight) for name, weight in WEIGHTS.items())
    home.configure('[models."m"]\nslots = 1\n' + keys + key_table("holder"))
    model = add_stub_model(home, "m")
    hang = f"[[stub: {json.dumps({'n_tokens': 9, 'hang_after_tokens': 1})}]]"
    with serving(home) as daemon, ThreadPoolExecutor(sum(IN_LINE.values())) as pool:
        # One request holds the only slot until all the others stand in line.
        body = chat_body("m", hang, stream=True)
        with daemon.client.open("POST", "/v1/chat/completions", body, headers=bearer("holder")) as holder:
            holder.read1(65536)
            jobs = [
                pool.submit(
                    daemon.client.post,
                    "/v1/chat/completions",
                    chat_body("m", f"key {name} number {number}", max_tokens=1),
                    headers=bearer(name),
                )
                for name, count in IN_LINE.items()
                for number in range(count)
            ]
            eventually(lambda: waiting(daemon.client, "holder") == len(jobs), what="all requests stand in line")
        assert {job.result().status for job in jobs} == {200}
    prompts = [
        json.loads(request["body"])["messages"][0]["content"] for request in model.requests("/v1/chat/completions")
    ]
    # In the order in which the engine got them: no clock is involved.
    served = Counter(prompt.split()[1] for prompt in prompts[1 : 1 + SERVED])
    for name, weight in WEIGHTS.items():
        share = SERVED * weight / sum(WEIGHTS.values())
        assert abs(served[name] - share) <= 0.10 * share, dict(served)


def written_tokens(home: Home) -> int:
    """Return the completion tokens of key ``a`` that are on the disk, whatever the daemon does."""
    with sqlite3.connect(f"file:{home.data_dir / 'blazar.db'}?mode=ro", uri=True, timeout=30) as database:
        [[total]] = database.execute("SELECT COALESCE(SUM(completion_tokens), 0) FROM key_usage WHERE key = 'a'")
    return int(total)


@pytest.mark.promise("keys:killed")
def test_a_killed_daemon_loses_no_more_than_was_not_written_yet(home: Home, stub_home: Home) -> None:
    home.configure(key_table("boss") + key_table("a", daily_tokens=60))
    add_stub_model(home, "m")

    def ask(client: Client) -> int:
        """Ask once; return the completion tokens, or 0 when the day's are spent."""
        answer = client.post("/v1/chat/completions", chat_body("m", "hi", max_tokens=8), headers=bearer("a"))
        assert answer.status in {200, 429}, answer.body
        return int(answer.json()["usage"]["completion_tokens"]) if answer.status == 200 else 0

    with serving(home) as daemon:
        first = sum(ask(daemon.client) for _ in range(2))
        assert first == 16
        eventually(lambda: written_tokens(home) == first, what="what was used is written, within a flush interval")
        second = ask(daemon.client)
        daemon.signal(signal.SIGKILL)
        daemon.wait()
    kept = written_tokens(home)
    assert first <= kept <= first + second
    with serving(home) as daemon:
        usage = daemon.client.get("/api/usage", headers=bearer("boss")).json()["usage"]
        assert [row["completion_tokens"] for row in usage if row["key"] == "a"] == [kept]
        # The day goes on where it was: the quota counts what the killed daemon had served.
        used = sum(row["prompt_tokens"] + row["completion_tokens"] for row in usage if row["key"] == "a")
        spent = 0
        for _ in range(20):
            if not ask(daemon.client):
                break
            spent += 1
        answer = daemon.client.post("/v1/chat/completions", chat_body("m", "hi"), headers=bearer("a"))
        assert answer.status == 429
        assert answer.json()["error"]["code"] == "insufficient_quota"
        assert answer.header("retry-after") is not None
        each = used // (2 + (kept > first))
        assert used + (spent - 1) * each < 60 <= used + spent * each

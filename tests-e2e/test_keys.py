"""A daemon that has keys: made on its machine, used by clients, changed while it runs."""

import json
from typing import Any

import openai
import pytest

from e2e.served import Served
from e2e.waiting import eventually

MESSAGES: Any = [{"role": "user", "content": f"[[stub: {json.dumps({'text': 'hello there'})}]]"}]


def client(served: Served, key: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{served.daemon.url}/v1", api_key=key, max_retries=0)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.mark.promise("keys:live")
@pytest.mark.promise("keys:usage")
def test_a_day_in_the_life_of_keys(served: Served) -> None:
    served.add_model("m")
    served.add_model("other")
    assert served.client.get("/api/keys").status == 403
    admin = served.home.json("keys", "add", "boss")["key"]
    eventually(lambda: served.client.get("/v1/models").status == 401, what="the gateway asks for keys")
    assert served.client.get("/healthz").status == 200

    made = served.client.post("/api/keys", {"name": "alice", "models": ["m"], "rpm": 3}, headers=bearer(admin))
    assert made.status == 201
    secret = made.json()["key"]
    # What is made over HTTP holds at once.
    alice = client(served, secret)
    assert [model.id for model in alice.models.list()] == ["m"]
    answer = alice.chat.completions.create(model="m", messages=MESSAGES)
    assert answer.choices[0].message.content == "hello there"
    chunks = list(alice.chat.completions.create(model="m", messages=MESSAGES, stream=True))
    assert chunks
    with pytest.raises(openai.PermissionDeniedError) as denied:
        alice.chat.completions.create(model="other", messages=MESSAGES)
    assert denied.value.code == "model_not_allowed"
    alice.chat.completions.create(model="m", messages=MESSAGES)
    with pytest.raises(openai.RateLimitError) as limited:
        alice.chat.completions.create(model="m", messages=MESSAGES)
    assert limited.value.code == "rate_limit_exceeded"
    assert int(limited.value.response.headers["retry-after"]) > 0
    with pytest.raises(openai.AuthenticationError) as unknown:
        client(served, "wrong").models.list()
    assert unknown.value.code == "invalid_api_key"

    for path, body, status in (
        ("/api/keys", {"name": "alice"}, 409),
        ("/api/keys", {"name": "a b"}, 400),
        ("/api/keys", {"name": "carl", "rpm": -1}, 400),
        ("/api/keys/nobody/rotate", {}, 404),
    ):
        assert served.client.post(path, body, headers=bearer(admin)).status == status
    rotated = served.client.post("/api/keys/alice/rotate", {}, headers=bearer(admin)).json()["key"]
    assert served.client.get("/v1/models", headers=bearer(secret)).status == 401
    assert served.client.get("/v1/models", headers=bearer(rotated)).status == 200
    assert served.client.get("/api/keys", headers=bearer(rotated)).status == 403
    assert served.client.call("DELETE", "/api/keys/alice", headers=bearer(admin)).status == 200
    last = served.client.call("DELETE", "/api/keys/boss", headers=bearer(admin))
    assert last.status == 409
    assert "would leave the gateway authless" in last.json()["error"]

    rows = served.home.json("keys", "usage")
    assert [(row["key"], row["model"], row["requests"]) for row in rows] == [("alice", "m", 3)]
    assert rows[0]["completion_tokens"] > 0
    assert admin not in served.daemon.log()
    assert secret not in served.daemon.log()
    assert served.daemon.stop() == 0
    # Written by then, whoever asks.
    assert served.home.json("keys", "usage") == rows

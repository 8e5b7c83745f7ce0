"""One model, several engines: vectors and scores, replicas, contexts that clients ask for, and rows that change."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from e2e.served import Served, add_stub_model
from e2e.waiting import eventually


def children(served: Served) -> dict[str, str]:
    """Return the children that `blazar ps` lists, and the model of each."""
    return {str(entry["child"]): str(entry["name"]) for entry in served.home.json("ps")}


@pytest.mark.promise("model:known-at-once")
def test_a_model_can_be_asked_for_as_soon_as_it_was_added_and_no_longer_once_it_was_removed(served: Served) -> None:
    for number in range(3):
        name = f"m{number}"
        add_stub_model(served.home, name)
        assert served.client.chat(name, max_tokens=2).status == 200
        served.home.ok("models", "rm", name)
        assert served.client.chat(name, max_tokens=2).status == 404
        assert not served.daemon.engines()


@pytest.mark.promise("model:names")
def test_a_name_with_a_comma_is_refused_when_it_is_given(served: Served) -> None:
    model = add_stub_model(served.home, "m")
    done = served.home.blazar("models", "add", model.path, "--name", "a,b")
    assert done.returncode != 0
    assert "use '-' instead" in done.stderr
    assert served.models() == ["m"]


@pytest.mark.promise("instance:embed")
def test_vectors_of_a_text_model_come_from_an_engine_of_its_own_beside_it(served: Served) -> None:
    model = served.add_model("m")
    assert served.client.chat("m", max_tokens=2).status == 200
    answer = served.client.post("/v1/embeddings", {"model": "m", "input": ["a", "b"]})
    assert answer.status == 200
    assert len(answer.json()["data"]) == 2
    assert children(served) == {"m": "m", "m@embed": "m"}
    assert model.spawns == 2
    served.home.ok("stop", "m")
    assert children(served) == {}
    eventually(lambda: not served.daemon.engines(), what="both engines have ended")


@pytest.mark.promise("instance:rerank")
def test_a_reranker_scores_and_each_kind_is_told_its_endpoint(served: Served) -> None:
    served.add_model("scores", pooling_type=4)
    served.add_model("vectors", pooling_type=1)
    served.add_model("text")
    body = {"query": "a cat", "documents": ["rain", "a cat"], "top_n": 1}
    answer = served.client.post("/v1/rerank", {"model": "scores", **body})
    assert answer.status == 200
    assert [result["index"] for result in answer.json()["results"]] == [1]
    for model, path, asked, right in (
        ("text", "/v1/rerank", body, "/v1/chat/completions"),
        ("vectors", "/v1/rerank", body, "/v1/embeddings"),
        ("scores", "/v1/embeddings", {"input": "a"}, "/v1/rerank"),
        ("scores", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}]}, "/v1/rerank"),
    ):
        refused = served.client.post(path, {"model": model, **asked})
        assert refused.status == 400
        assert right in refused.json()["error"]["message"]
    assert children(served) == {"scores": "scores"}


@pytest.mark.promise("instance:replicas")
def test_a_second_engine_comes_when_the_first_is_busy_and_both_serve(served: Served) -> None:
    served.home.configure('stream_ping_secs = 1\n[models."m"]\nreplicas = 2\nslots = 1\n')
    model = served.add_model("m", script={"token_delay_s": 0.05})
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda _: served.client.chat("m", max_tokens=20), range(6)))
    assert {answer.status for answer in answers} == {200}
    assert children(served) == {"m": "m", "m#2": "m"}
    assert model.spawns == 2
    assert served.client.chat("m#2", max_tokens=2).status == 404
    served.home.ok("stop", "m")
    eventually(lambda: not served.daemon.engines(), what="both engines have ended")


@pytest.mark.promise("instance:context")
def test_a_client_that_asks_for_more_context_gets_it_and_one_that_asks_for_less_changes_nothing(
    served: Served,
) -> None:
    model = served.add_model("m", context_length=131_072)

    def context_after(**options: int) -> int:
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "options": options, "stream": False}
        assert served.client.post("/api/chat", body).status == 200
        ((entry,)) = served.daemon.residents()
        return int(entry["context_length"])

    # Where nobody has asked, it is the largest that plainly fits, 65,536 at most.
    first = context_after()
    assert context_after(num_ctx=1024) == first
    assert context_after(num_ctx=9003) == first
    assert model.spawns == 1
    assert context_after(num_ctx=first + 5000) > first
    assert context_after() > first
    assert model.spawns == 2
    # Not more than it was trained for, and no engine is started for asking.
    assert context_after(num_ctx=10_000_000) == 131_072
    assert context_after(num_ctx=10_000_000) == 131_072
    assert model.spawns <= 3


@pytest.mark.promise("instance:keep-alive")
def test_each_engine_of_a_model_has_a_countdown_of_its_own(served: Served) -> None:
    served.add_model("m")
    assert served.client.chat("m", max_tokens=2, keep_alive="2h").status == 200
    assert served.client.post("/api/embed", {"model": "m", "input": "a", "keep_alive": 0}).status == 200
    eventually(lambda: set(children(served)) == {"m"}, what="the engine for vectors has gone")
    (entry,) = served.daemon.residents()
    assert float(str(entry["expires_in_s"])) > 3600

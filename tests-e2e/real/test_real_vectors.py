"""Vectors and scores from the stock engine: of a text model, of an embedder and of a reranker."""

import base64
import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blazar_gguf import PoolingType
from blazar_gguf.testing import write_tiny_model
from e2e.home import temporary_home
from e2e.served import Served, serving

EMBEDDER = "tiny-embedder"
RERANKER = "tiny-reranker"
TEXT = "tiny-text"
ONE_THREAD = 'extra_args = ["-t", "1", "-tb", "1"]\n'


@pytest.fixture(scope="module")
def vectors(engine: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A daemon on the real engine with one model of each kind."""
    folder = tmp_path_factory.mktemp("vectors")
    with temporary_home() as home:
        home.configure(f"[defaults]\nctx = 512\n{ONE_THREAD}")
        home.ok("engine", "add-local", engine)
        for name, pooling in ((TEXT, None), (EMBEDDER, PoolingType.MEAN), (RERANKER, PoolingType.RANK)):
            write_tiny_model(folder / f"{name}.gguf", pooling_type=pooling)
            home.ok("models", "add", folder / f"{name}.gguf", "--name", name)
        with serving(home) as daemon:
            yield Served(home, daemon)


def ask(served: Served, path: str, body: dict[str, Any]) -> Any:
    answer = served.client.post(path, body)
    assert answer.status == 200, answer.body
    return answer.json()


@pytest.mark.promise("instance:embed")
@pytest.mark.parametrize("model", [EMBEDDER, TEXT])
def test_vectors_have_the_same_length_and_equal_texts_equal_vectors(vectors: Served, model: str) -> None:
    # The engine may reuse what it has of a text; so much may differ.
    inputs = ["one two", "three", "one two"]
    answer = ask(vectors, "/v1/embeddings", {"model": model, "input": inputs})
    rows = [row["embedding"] for row in answer["data"]]
    assert [row["index"] for row in answer["data"]] == [0, 1, 2]
    assert len({len(row) for row in rows}) == 1
    assert rows[0] == pytest.approx(rows[2], abs=1e-3)
    assert rows[0] != pytest.approx(rows[1], abs=1e-3)
    assert answer["usage"]["prompt_tokens"] > 0
    packed = ask(vectors, "/v1/embeddings", {"model": model, "input": inputs[1], "encoding_format": "base64"})
    raw = base64.b64decode(packed["data"][0]["embedding"])
    assert list(struct.unpack(f"<{len(raw) // 4}f", raw)) == pytest.approx(rows[1], abs=1e-3)
    short = ask(vectors, "/v1/embeddings", {"model": model, "input": inputs[1], "dimensions": 3})
    assert math.hypot(*short["data"][0]["embedding"]) == pytest.approx(1.0)


@pytest.mark.promise("instance:embed")
def test_token_lists_are_taken_and_ollamas_vectors_have_length_1(vectors: Served) -> None:
    answer = ask(vectors, "/v1/embeddings", {"model": EMBEDDER, "input": [[5, 6], [7]]})
    assert len(answer["data"]) == 2
    ollama = ask(vectors, "/api/embed", {"model": TEXT, "input": ["one", "two"]})
    assert [math.hypot(*vector) for vector in ollama["embeddings"]] == pytest.approx([1.0, 1.0])


@pytest.mark.promise("instance:embed")
def test_many_long_inputs_that_do_not_fit_together_are_all_computed(vectors: Served) -> None:
    # 300 tokens and more each, four at a time in a pool of 512.
    inputs = [f"one {'two ' * 300}" for _ in range(6)]
    answer = ask(vectors, "/v1/embeddings", {"model": TEXT, "input": inputs})
    assert len(answer["data"]) == 6


@pytest.mark.promise("instance:embed")
def test_an_input_that_is_too_long_is_the_clients_matter_or_cut_when_it_says_so(vectors: Served) -> None:
    long = "one " * 2000
    for model in (EMBEDDER, TEXT):
        refused = vectors.client.post("/v1/embeddings", {"model": model, "input": long})
        assert refused.status == 400
        assert "512" in refused.json()["error"]["message"]
        cut = ask(vectors, "/api/embed", {"model": model, "input": long, "truncate": True})
        assert cut["prompt_eval_count"] <= 512


@pytest.mark.promise("instance:rerank")
def test_documents_are_scored_and_sorted(vectors: Served) -> None:
    body = {"model": RERANKER, "query": "one", "documents": ["one two", {"text": "three"}, "four"]}
    answer = ask(vectors, "/v1/rerank", {**body, "return_documents": True})
    scores = [result["relevance_score"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True)
    assert {result["index"] for result in answer["results"]} == {0, 1, 2}
    assert all(math.isfinite(score) for score in scores)
    top = ask(vectors, "/v2/rerank", {**body, "top_n": 1})
    assert top["results"][0]["index"] == answer["results"][0]["index"]


@pytest.mark.promise("instance:embed")
def test_the_text_model_still_answers_beside_its_vectors(vectors: Served) -> None:
    assert vectors.client.chat(TEXT, max_tokens=4).status == 200
    listed = {entry["child"] for entry in vectors.daemon.residents()}
    assert TEXT in listed
    refused = vectors.client.chat(EMBEDDER)
    assert refused.status == 400
    assert "/v1/embeddings" in refused.json()["error"]["message"]

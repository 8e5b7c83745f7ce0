"""On the real engine: it takes the arguments that knobs become, and a unix socket in the place of a port."""

from pathlib import Path

import pytest

from blazar_gguf.testing import write_tiny_model
from e2e.home import Home
from e2e.served import serving

KNOBS = """
[defaults]
threads = 1
threads_batch = 1
[models.tiny]
ctx = 1024
slots = 2
ubatch = 128
cache_type_k = "q8_0"
cache_type_v = "q8_0"
cache_ram_mb = 16
context_shift = true
slot_prompt_similarity = 0.5
gpu_layers = 0
devices = ["none"]
tensor_preset = "ffn-cpu"
samplers = "top_k;top_p;typical;temp"
chat_template = "chatml"
chat_template_kwargs = { enable_thinking = false }
reasoning_effort = "low"
spec = "ngram-mod,ngram-simple"
spec_ngram_mod_n_match = 8
spec_ngram_mod_n_min = 2
spec_ngram_mod_n_max = 4
spec_ngram_simple_size_n = 4
spec_ngram_simple_size_m = 8
spec_ngram_simple_min_hits = 1
"""


def small_model(home: Home, engine: Path, tmp_path: Path) -> None:
    write_tiny_model(tmp_path / "tiny.gguf")
    home.ok("engine", "add-local", engine)
    home.ok("models", "add", tmp_path / "tiny.gguf", "--name", "tiny")


@pytest.mark.promise("config:knobs")
def test_the_engine_takes_what_knobs_become(engine: Path, home: Home, tmp_path: Path) -> None:
    small_model(home, engine, tmp_path)
    home.configure(KNOBS)
    plain = home.json("explain", "tiny")["plan"]
    assert plain["warnings"] == []
    with serving(home) as daemon:
        answer = daemon.client.chat("tiny", max_tokens=4)
        assert answer.status == 200, answer.text()
        [child] = home.json("ps")
        assert (child["slots"], child["context_length"]) == (2, 1024)
        log = home.ok("logs", "tiny", "-n", "100000")
    assert "unable to match sampler" not in log


@pytest.mark.promise("config:knobs")
def test_a_draft_model_guesses_for_another(engine: Path, home: Home, tmp_path: Path) -> None:
    small_model(home, engine, tmp_path)
    draft = tmp_path / "draft.gguf"
    write_tiny_model(draft, seed=1)
    home.configure(f'[models.tiny]\nspec_draft_model = "{draft}"\nspec_draft_n_max = 4\nctx = 1024\nthreads = 1\n')
    plan = home.json("explain", "tiny")["plan"]
    assert "draft-simple" in plan["argv"]
    with serving(home) as daemon:
        with_draft = daemon.client.chat("tiny", max_tokens=8, temperature=0).json()
        home.configure("[models.tiny]\nctx = 1024\nthreads = 1\n")
        home.ok("stop", "tiny")
        without = daemon.client.chat("tiny", max_tokens=8, temperature=0).json()
    said = [answer["choices"][0]["message"]["content"] for answer in (with_draft, without)]
    assert said[0] == said[1]


@pytest.mark.promise("load:unix-sockets")
def test_streams_and_whole_answers_come_over_a_unix_socket(engine: Path, home: Home, tmp_path: Path) -> None:
    small_model(home, engine, tmp_path)
    home.configure('child_transport = "unix"\n[defaults]\nthreads = 1\nctx = 1024\n')
    with serving(home) as daemon:
        whole = daemon.client.chat("tiny", max_tokens=4)
        stream = daemon.client.chat("tiny", max_tokens=4, stream=True)
        assert (whole.status, stream.status) == (200, 200)
        assert stream.body.endswith(b"data: [DONE]\n\n")
        log = home.ok("logs", "tiny", "-n", "100000")
        sockets = [path for path in home.root.rglob("*.sock") if path.name != "control.sock"]
        assert len(sockets) == 1
    assert "listening on unix://" in log
    assert not sockets[0].exists()

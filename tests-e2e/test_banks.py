"""What was said with a model outlives its eviction, and not the model."""

import pytest

from e2e.home import Home
from e2e.served import add_stub_model, serving
from e2e.waiting import eventually

PROMPT = "a long story about a river, a bridge and a mill, which is told again and again " * 3


@pytest.mark.promise("load:banks")
def test_a_conversation_goes_on_where_it_was_after_an_eviction_and_ends_with_its_model(
    home: Home, stub_home: Home
) -> None:
    home.configure("max_loaded_models = 1\n")
    for name in ("m", "other"):
        add_stub_model(home, name)
    banks = home.data_dir / "banks"
    with serving(home) as daemon:

        def cached(name: str) -> int:
            answer = daemon.client.chat(name, PROMPT, max_tokens=4).json()
            return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])

        assert cached("m") == 0
        assert cached("other") == 0
        assert cached("m") >= 50, "it made room for the other one, and was given back what it had read"
        assert (banks / "m" / "_auto-4096.json").exists()
        home.ok("models", "rm", "m")
        eventually(lambda: not (banks / "m").exists(), what="what was said with it is gone")
        assert (banks / "other").exists()

"""Instances of a model as processes: vectors of a text model, images, replicas, and what a stop means for them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from blazar_budget import Machine
from blazar_routing.errors import ContextDoesNotFit, InvalidRequest
from blazar_routing.instances import Role
from blazar_stubs import write_stub_model
from blazar_supervisor.residency.lease import SlotLease
from blazar_supervisor.testing.house import House, ask, until


async def post(lease: SlotLease, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    """Send a request through a lease and return status and parsed body."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{lease.endpoint.base_url}{path}", json=body, headers=dict(lease.headers)) as response,
    ):
        return response.status, json.loads(await response.text())


def argv(model: Any, spawn: int = -1) -> list[str]:
    """Return the arguments of a process that was started for the model."""
    words: list[str] = model.events("spawn")[spawn]["argv"]
    return words


async def test_vectors_of_a_text_model_come_from_a_child_of_their_own(house: House) -> None:
    model = house.model()
    instance = house.host.instance_for("tiny", Role.EMBED)
    assert instance == "tiny@embed"
    (await house.lend()).release()
    lease = await house.lend(instance)
    assert (lease.model, lease.child) == ("tiny", "tiny@embed")
    status, answer = await post(lease, "/v1/embeddings", {"model": "tiny", "input": ["a", "b"]})
    assert status == 200
    assert len(answer["data"]) == 2
    words = argv(model)
    assert "--embeddings" in words
    assert words[words.index("--pooling") + 1] == "mean"
    # An input is one physical batch.
    ctx = words[words.index("-c") + 1]
    assert words[words.index("-ub") + 1] == words[words.index("-b") + 1] == ctx == "2048"
    assert "--embeddings" not in argv(model, 0)
    lease.release()
    assert [view.child for view in house.host.residents()] == ["tiny", "tiny@embed"]
    assert {view.model for view in house.host.residents()} == {"tiny"}
    assert model.spawns == 2


async def test_an_embedders_own_child_makes_vectors_and_a_rerankers_scores(house: House) -> None:
    house.model("emb", file={"pooling_type": 2}, row={"capabilities": ("embedding",)})
    house.model("rank", file={"pooling_type": 4}, row={"capabilities": ("rerank",)})
    assert house.host.instance_for("emb", Role.EMBED) == "emb"
    lease = await house.lend("emb")
    assert (await post(lease, "/v1/embeddings", {"input": "a"}))[0] == 200
    lease.release()
    lease = await house.lend("rank")
    status, answer = await post(lease, "/v1/rerank", {"query": "a", "documents": ["a", "b"]})
    assert (status, len(answer["results"])) == (200, 2)
    lease.release()


async def test_a_stop_ends_every_instance_of_the_model(house: House) -> None:
    house.model()
    for instance in ("tiny", "tiny@embed"):
        (await house.lend(instance)).release()
    assert await house.host.unload("tiny")
    assert house.host.residents() == ()
    assert not house.processes()


async def test_each_instance_has_a_keep_alive_of_its_own(house: House) -> None:
    house.model()
    for instance in ("tiny", "tiny@embed"):
        (await house.lend(instance)).release()
    house.host.keep("tiny@embed", 0)
    await until(lambda: house.state("tiny@embed") is None, "the embedder has gone")
    assert house.state() == "ready"


async def test_a_lazy_projector_is_loaded_when_an_image_comes(house: House, tmp_path: Path) -> None:
    projector = write_stub_model(tmp_path / "mmproj.gguf", architecture="clip").path
    model = house.model(row={"mmproj_path": projector})
    house.configure(models={"tiny": {"mmproj_policy": "lazy"}})
    (await house.lend()).release()
    assert "-mm" not in argv(model)
    instance = house.host.instance_for("tiny", Role.VISION)
    assert instance == "tiny@vision"
    lease = await house.lend(instance)
    assert lease.child == "tiny@vision"
    assert argv(model)[argv(model).index("-mm") + 1] == str(projector)
    lease.release()


@pytest.mark.parametrize(
    ("settings", "instance", "attached"),
    [
        ({}, "tiny", True),
        ({"mmproj_policy": "attach"}, "tiny", True),
        ({"mmproj_policy": True}, "tiny", True),
        ({"mmproj_policy": "lazy", "extra_args": ["-mm", "/elsewhere.gguf"]}, "tiny", True),
        ({"mmproj_policy": "skip", "extra_args": ["--mmproj", "/elsewhere.gguf"]}, "tiny", True),
        ({"mmproj_policy": "skip"}, None, False),
        ({"mmproj_policy": False}, None, False),
    ],
)
async def test_the_policy_says_who_sees(
    house: House, tmp_path: Path, settings: dict[str, object], instance: str | None, attached: bool
) -> None:
    projector = write_stub_model(tmp_path / "mmproj.gguf", architecture="clip").path
    house.model(row={"mmproj_path": projector})
    house.configure(models={"tiny": settings})
    if instance is None:
        with pytest.raises(InvalidRequest, match="mmproj_policy"):
            house.host.instance_for("tiny", Role.VISION)
    else:
        assert house.host.instance_for("tiny", Role.VISION) == instance
    profile = await house.host.explain("tiny")
    assert bool({"-mm", "--mmproj"} & set(profile.args)) == attached


async def test_replicas_are_started_as_requests_need_them_and_share_the_line(house: House) -> None:
    model = house.model()
    house.configure(models={"tiny": {"replicas": 2, "slots": 1}})
    first = await house.lend()
    second = await house.lend()
    third = asyncio.ensure_future(house.lend())
    assert {first.child, second.child} == {"tiny", "tiny#2"}
    assert model.spawns == 2
    assert (await ask(second))[0] == 200
    await until(lambda: sum(view.waiting for view in house.host.residents()) == 1, "the third waits")
    second.release()
    assert (await third).child == "tiny#2"
    first.release()
    (await third).release()
    # The least loaded one serves; of equals the first.
    lease = await house.lend()
    assert lease.child == "tiny"
    lease.release()
    assert await house.host.unload("tiny")
    assert not house.processes()


async def test_a_context_that_is_asked_for_is_given_once_the_smaller_child_is_idle(house: House) -> None:
    model = house.model(file={"context_length": 131_072})
    small = await house.lend()
    assert small.ctx_tokens == 65_536
    large = asyncio.ensure_future(house.lend(ctx_tokens=70_000))
    await until(lambda: sum(view.waiting for view in house.host.residents()) == 1, "it waits")
    plain = asyncio.ensure_future(house.lend())
    await until(lambda: sum(view.waiting for view in house.host.residents()) == 2, "both wait")
    assert model.spawns == 1
    small.release()
    lease = await large
    assert lease.ctx_tokens == 131_072
    assert (await plain).child == lease.child
    lease.release()
    (await plain).release()
    # A smaller wish, or none, is served by the larger child.
    for wish in (0, 9003, 131_072):
        (await house.lend(ctx_tokens=wish)).release()
    assert model.spawns == 2


async def test_a_context_that_does_not_fit_is_refused_and_what_runs_stays(house: House) -> None:
    model = house.model(file={"context_length": 1_048_576, "block_count": 40, "embedding_length": 1024})
    house.machine = Machine(ram_total=16 << 30, ram_available=16 << 30)
    (await house.lend()).release()
    with pytest.raises(ContextDoesNotFit, match="num_ctx"):
        await house.lend(ctx_tokens=1_000_000)
    assert model.spawns == 1
    assert house.state() == "ready"


async def test_the_owners_context_stands_against_a_clients_wish(house: House) -> None:
    model = house.model()
    house.configure(models={"tiny": {"ctx": 1024}})
    for wish in (0, 4096, 4096):
        lease = await house.lend(ctx_tokens=wish)
        assert lease.ctx_tokens == 1024
        lease.release()
    assert model.spawns == 1

"""How instances are shaped, and the order in which contexts are tried."""

import pytest

from blazar_gguf import GgufMeta, PoolingType, read_metadata_file
from blazar_gguf.testing import write_tiny_model
from blazar_routing.instances import Role
from blazar_store.settings import ModelSettings
from blazar_supervisor.engines.profile import Knobs, Vectors
from blazar_supervisor.residency.contexts import Wishes, steps_for
from blazar_supervisor.residency.shapes import attempts, makes_vectors, shape_for


def header(tmp_path_factory: pytest.TempPathFactory, pooling: PoolingType | None) -> GgufMeta:
    path = tmp_path_factory.mktemp("weights") / "m.gguf"
    write_tiny_model(path, pooling_type=pooling)
    return read_metadata_file(path)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> GgufMeta:
    return header(tmp_path_factory, None)


@pytest.fixture(scope="module")
def embedder(tmp_path_factory: pytest.TempPathFactory) -> GgufMeta:
    return header(tmp_path_factory, PoolingType.CLS)


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> GgufMeta:
    return header(tmp_path_factory, PoolingType.RANK)


WRITTEN = ModelSettings(context_shift=True, chat_template="chatml", spec="ngram-mod", threads=3)
KNOBS = Knobs(mmproj=True, written=WRITTEN)


def test_a_plain_instance_follows_its_file(text: GgufMeta, embedder: GgufMeta, reranker: GgufMeta) -> None:
    def shape(meta: GgufMeta) -> Knobs:
        return shape_for(KNOBS, Role.PLAIN, meta, lazy_projector=False)

    assert shape(text) == KNOBS
    assert shape(embedder).vectors == Vectors("embeddings")
    assert shape(reranker).vectors == Vectors("reranking")
    assert not makes_vectors(text)
    assert makes_vectors(embedder)


def test_a_lazy_projector_is_on_the_companion_only(text: GgufMeta) -> None:
    assert not shape_for(KNOBS, Role.PLAIN, text, lazy_projector=True).mmproj
    assert shape_for(KNOBS, Role.VISION, text, lazy_projector=True).mmproj


def test_vectors_of_a_text_model_are_means_and_need_nothing_of_answers(text: GgufMeta) -> None:
    shaped = shape_for(KNOBS, Role.EMBED, text, lazy_projector=False)
    assert shaped.vectors == Vectors("embeddings", "mean")
    assert (shaped.mmproj, shaped.written, shaped.cache_ram_mb) == (False, ModelSettings(threads=3), 0)


@pytest.mark.parametrize(
    ("wanted", "trained", "steps"),
    [
        (1, 131_072, (4096, 1024)),
        (4096, 131_072, (4096,)),
        (9003, 131_072, (16_384, 9216)),
        (70_000, 131_072, (131_072, 70_656)),
        (200_000, 131_072, (131_072,)),
        (5000, 6000, (6000, 5120)),
    ],
)
def test_contexts_rise_in_steps_up_to_training(wanted: int, trained: int, steps: tuple[int, ...]) -> None:
    assert steps_for(wanted, trained=trained) == steps


def test_an_embedder_gets_the_largest_context_that_fits_as_one_batch() -> None:
    vectors = Knobs(vectors=Vectors("embeddings"))
    tried = attempts(vectors, Role.PLAIN, trained=2048, ctx_tokens=0)
    assert [(knobs.ctx, knobs.ubatch) for knobs in tried] == [(2048, 2048), (1024, 1024), (512, 512)]
    assert [knobs.ctx for knobs in attempts(vectors, Role.EMBED, trained=32_768, ctx_tokens=0)] == [2048, 1024, 512]
    own = Knobs(vectors=Vectors("embeddings"), ctx=700)
    assert [(knobs.ctx, knobs.ubatch) for knobs in attempts(own, Role.PLAIN, trained=2048, ctx_tokens=0)] == [
        (700, 700)
    ]


def test_the_owners_context_is_no_clients_business() -> None:
    assert attempts(Knobs(ctx=2048), Role.PLAIN, trained=8192, ctx_tokens=8192) == (Knobs(ctx=2048),)
    assert attempts(Knobs(), Role.PLAIN, trained=8192, ctx_tokens=0) == (Knobs(),)


def test_the_largest_wish_of_a_line_counts() -> None:
    wishes = Wishes()
    wishes.add(1, "m", 0)
    wishes.add(2, "m", 8192)
    wishes.add(3, "m", 4096)
    wishes.add(4, "other", 65_536)
    assert wishes.largest("m") == 8192
    assert set(wishes.of_line("m")) == {2, 3}
    assert set(wishes) == {"m", "other"}
    wishes.drop(2)
    wishes.drop(99)
    assert wishes.largest("m") == 4096
    assert wishes.largest("nobody") == 0

import os
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_store.errors import NotWritable, StorageFailed
from blazar_store.layout import MAX_SOCKET_PATH_BYTES, Layout, encode_name, is_private

HOSTILE = [
    pytest.param("org/model:Q4_K_M", id="slash and colon"),
    pytest.param("org%2Fmodel%3AQ4", id="encoded"),
    pytest.param("model:latest", id="tag"),
    pytest.param("MiXeD", id="case"),
    pytest.param("trailing ", id="trailing space"),
    pytest.param("..", id="parent"),
    pytest.param(".", id="here"),
    pytest.param("../../etc/passwd", id="traversal"),
    pytest.param("/../", id="slashes"),
    pytest.param("..\\..", id="backslashes"),
    pytest.param("#2", id="replica mark"),
    pytest.param("model@vision", id="vision mark"),
    pytest.param("модель-模型", id="any script"),
    pytest.param("x" * 300, id="300 characters"),
    pytest.param("模" * 300, id="300 wide characters"),
    pytest.param("nul\x00", id="nul"),
    pytest.param("", id="empty"),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_leaves_its_directory(layout: Layout, name: str) -> None:
    for path in (
        layout.child_log(name),
        layout.apikey_file(name),
        layout.child_pidfile(name),
        layout.engine_dir(name),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        assert path.resolve().parent == path.parent
        assert [entry.name for entry in path.parent.iterdir() if entry.is_file()] == [path.name]
        assert len(os.fsencode(path.name)) < 140
        path.unlink()


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        pytest.param("smollm2", "smollm2", id="plain"),
        pytest.param("gemma3-270m_q4.k", "gemma3-270m_q4.k", id="plain with marks"),
        pytest.param("org/model:Q4", "org%2Fmodel%3AQ4", id="percent-encoded"),
        pytest.param("model#2", "model%232", id="replica"),
        pytest.param("..", "%2E.", id="leading dot"),
        pytest.param("é", "%C3%A9", id="UTF-8"),
    ],
)
def test_file_names_are_percent_encoded(name: str, stem: str) -> None:
    assert encode_name(name) == stem


@given(st.text(st.characters(), max_size=200), st.text(st.characters(), max_size=200))
def test_different_names_have_different_files(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)


@given(st.text(min_size=100, max_size=400))
def test_long_names_are_cut_between_characters_and_told_apart(name: str) -> None:
    stem = encode_name(name)
    assert len(stem) <= 120
    assert encode_name(name + "x") != stem
    kept, _tilde, _digest = stem.partition("~")
    assert all(len(piece) >= 2 for piece in kept.split("%")[1:])


def test_a_model_named_like_our_own_files_meets_none_of_them(layout: Layout) -> None:
    ours = {layout.control_socket, layout.daemon_log, layout.lock_file, layout.database}
    theirs = {
        path
        for name in ("control", "daemon", "sockets", "blazar")
        for path in (layout.child_socket(name), layout.apikey_file(name), layout.child_pidfile(name))
    }
    assert not ours & theirs
    assert layout.sockets_dir not in theirs


def test_prepare_makes_private_directories_and_may_be_repeated(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "deep" / "data", short_root=tmp_path)
    for _ in range(2):
        layout.prepare()
    assert is_private(layout.data_dir)
    assert is_private(layout.run_dir)
    for directory in (layout.engines_dir, layout.models_dir, layout.banks_dir, layout.child_log_dir):
        assert directory.is_dir()


def test_pidfiles_are_listed(layout: Layout) -> None:
    for child in ("b", "a#2"):
        layout.child_pidfile(child).write_text("1")
    layout.apikey_file("a").write_text("secret")
    assert layout.child_pidfiles() == (layout.child_pidfile("a#2"), layout.child_pidfile("b"))


def deep(tmp_path: Path) -> Path:
    return tmp_path / ("d" * 100) / "data"


def test_long_path_moves_the_sockets_to_a_short_private_directory(tmp_path: Path, public_dir: Path) -> None:
    layout = Layout(deep(tmp_path), short_root=public_dir)
    layout.prepare()
    assert layout.control_socket.parent == layout.short_dir
    assert is_private(layout.short_dir)
    assert layout.child_socket("m").name.endswith(".sock")
    assert layout.child_socket("m") != layout.child_socket("m#2")
    for path in (layout.control_socket, layout.child_socket("模" * 300)):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
        path.unlink()
    layout.discard_short_dir()
    assert not layout.short_dir.exists()


def test_usual_data_directory_needs_nothing_outside_itself(public_dir: Path) -> None:
    layout = Layout(public_dir / "data", short_root=public_dir / "short")
    layout.prepare()
    assert not (public_dir / "short").exists()
    for child in ("m", "m#2", "模" * 300):
        assert layout.child_socket(child).parent == layout.sockets_dir


@given(st.integers(min_value=1, max_value=120), st.text(min_size=1, max_size=200))
def test_socket_paths_always_fit_the_kernel(length: int, child: str) -> None:
    layout = Layout(Path("/nowhere") / ("d" * length))
    for path in (layout.control_socket, layout.child_socket(child)):
        assert len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES
        assert path.suffix == ".sock"


def test_both_sides_find_the_same_socket_through_a_link(tmp_path: Path) -> None:
    target = deep(tmp_path)
    target.mkdir(parents=True)
    (tmp_path / "link").symlink_to(target)
    there, here = Layout(target, short_root=tmp_path), Layout(tmp_path / "link", short_root=tmp_path)
    assert there.control_socket == here.control_socket


def test_control_socket_is_found_only_when_it_is_there(layout: Layout) -> None:
    assert layout.find_control_socket() is None
    layout.control_socket.write_text("not a socket")
    assert layout.find_control_socket() is None
    layout.control_socket.unlink()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(layout.control_socket))
        assert layout.find_control_socket() == layout.control_socket


def test_socket_in_a_directory_open_to_others_is_not_trusted(tmp_path: Path, public_dir: Path) -> None:
    layout = Layout(deep(tmp_path), short_root=public_dir)
    layout.prepare()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(layout.control_socket))
        assert layout.find_control_socket() == layout.control_socket
        layout.short_dir.chmod(0o777)
        assert layout.find_control_socket() is None
        with pytest.raises(NotWritable, match="open to others"):
            layout.prepare()


def test_what_does_not_exist_is_not_private(tmp_path: Path) -> None:
    assert not is_private(tmp_path / "absent")


def test_a_link_in_place_of_the_short_directory_is_refused(tmp_path: Path, public_dir: Path) -> None:
    layout = Layout(deep(tmp_path), short_root=public_dir)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    layout.short_dir.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotWritable):
        layout.prepare()


def test_forbidden_place_is_a_typed_error(
    public_dir: Path, unprivileged: Callable[[], AbstractContextManager[None]]
) -> None:
    public_dir.chmod(0o555)
    with unprivileged(), pytest.raises(NotWritable, match="Permission denied"):
        Layout(public_dir / "data").prepare()


def test_a_file_where_a_directory_must_be_is_a_typed_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(StorageFailed):
        Layout(tmp_path / "data").prepare()

"""Who may call from a web page, and under which names."""

import pytest

from blazar_gateway.origins import OriginPolicy, host_name, is_local_origin


def policy(*, origins: tuple[str, ...] = (), hosts: tuple[str, ...] = (), bind: str = "127.0.0.1") -> OriginPolicy:
    return OriginPolicy(allowed_origins=origins, allowed_hosts=hosts, bind_host=bind)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:11435", "localhost"),
        ("LOCALHOST", "localhost"),
        ("[::1]:11435", "::1"),
        ("[::1]", "::1"),
        ("example.org.", "example.org"),
        ("example.org.:80", "example.org"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_host_header_names(host: str, name: str) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:11435",
        "LocalHost:1",
        "app.localhost:11435",
        "127.0.0.1:11435",
        "127.8.9.1",
        "[::1]:11435",
        "host.docker.internal:11435",
        "",
    ],
)
def test_names_of_this_machine_are_answered(host: str) -> None:
    assert policy().allows_host(host)
    assert policy().allows_host(host)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:11435", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "a b"],
)
def test_foreign_names_are_refused(host: str) -> None:
    known = policy()
    assert not known.allows_host(host)
    assert not known.allows_host(host)


def test_bound_address_and_configured_names_are_answered() -> None:
    assert policy(bind="10.0.0.5").allows_host("10.0.0.5:11435")
    assert policy(hosts=("gpu.lan",)).allows_host("GPU.lan:11435")
    assert not policy(hosts=("gpu.lan",)).allows_host("gpu.lan.evil.example")
    assert policy(hosts=("*",)).allows_host("anything.example")


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "[::]"])
def test_bound_to_every_interface_any_address_is_answered_but_no_foreign_name(bind: str) -> None:
    assert policy(bind=bind).allows_host("192.168.1.5:11435")
    assert policy(bind=bind).allows_host("[fe80::1]:11435")
    assert not policy(bind=bind).allows_host("evil.example")


@pytest.mark.parametrize(
    ("origin", "local"),
    [
        ("http://localhost", True),
        ("http://localhost:3000", True),
        ("https://localhost:8443", True),
        ("http://127.0.0.1:5173", True),
        ("http://[::1]:5173", True),
        ("http://app.localhost:3000", True),
        ("null", False),
        ("", False),
        ("file://", False),
        ("http://localhost.evil.example", False),
        ("http://localhost@evil.example", False),
        ("http://evil.example/localhost", False),
        ("http://evil.example?localhost", False),
        ("https://evil.example", False),
        ("chrome-extension://abcdef", False),
        ("app://localhost", False),
        ("http://[::1", False),
    ],
)
def test_origin_is_a_page_of_this_machine(origin: str, *, local: bool) -> None:
    assert is_local_origin(origin) is local


@pytest.mark.parametrize(
    ("allowed", "origin", "passes"),
    [
        (("https://chat.example",), "https://chat.example", True),
        (("https://chat.example",), "HTTPS://chat.example", True),
        (("https://chat.example",), "https://chat.example.evil", False),
        (("https://chat.example",), "http://chat.example", False),
        (("https://*.example.org",), "https://a.example.org", True),
        (("https://*.example.org",), "https://example.org", False),
        (("chrome-extension://*",), "chrome-extension://abcdef", True),
        (("app://obsidian.md",), "app://obsidian.md", True),
        (("http://192.168.1.*:*",), "http://192.168.1.7:3000", True),
        (("*",), "null", True),
        (("null",), "null", True),
        ((), "null", False),
    ],
)
def test_configured_origins(allowed: tuple[str, ...], origin: str, *, passes: bool) -> None:
    assert policy(origins=allowed).allows_origin(origin, host="127.0.0.1:11435") is passes


def test_page_that_this_server_serves_may_call_it() -> None:
    known = policy(bind="0.0.0.0")
    assert known.allows_origin("http://192.168.1.5:11435", host="192.168.1.5:11435")
    assert not known.allows_origin("http://192.168.1.6:11435", host="192.168.1.5:11435")
    assert not known.allows_origin("http://", host="")

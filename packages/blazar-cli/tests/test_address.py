from http.client import HTTPConnection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_cli.address import Address, AddressSource, parse_address, resolve_address
from blazar_cli.errors import AddressInvalid


@pytest.mark.parametrize(
    ("text", "host", "port", "base_url"),
    [
        pytest.param("192.168.1.7", "192.168.1.7", 11435, "http://192.168.1.7:11435", id="bare address: our port"),
        pytest.param("box", "box", 11435, "http://box:11435", id="bare name: our port"),
        pytest.param("box:8080", "box", 8080, "http://box:8080", id="host and port"),
        pytest.param(":8080", "127.0.0.1", 8080, "http://127.0.0.1:8080", id="port alone: this machine"),
        pytest.param("box:", "box", 11435, "http://box:11435", id="colon without a port"),
        pytest.param("", "127.0.0.1", 11435, "http://127.0.0.1:11435", id="nothing"),
        pytest.param("::1", "::1", 11435, "http://[::1]:11435", id="bare IPv6"),
        pytest.param("[::1]", "::1", 11435, "http://[::1]:11435", id="IPv6 in brackets"),
        pytest.param("[::1]:9", "::1", 9, "http://[::1]:9", id="IPv6 and port"),
        pytest.param("fe80::1%eth0", "fe80::1%eth0", 11435, "http://[fe80::1%eth0]:11435", id="IPv6 with a zone"),
        pytest.param("http://box", "box", 80, "http://box", id="http URL: its own port"),
        pytest.param("https://box", "box", 443, "https://box", id="https URL: its own port"),
        pytest.param("HTTPS://box:9/", "box", 9, "https://box:9", id="scheme in capitals, slash at the end"),
        pytest.param("https://box/models/", "box", 443, "https://box/models", id="prefix kept"),
        pytest.param("box/models", "box", 11435, "http://box:11435/models", id="prefix without a scheme"),
        pytest.param("0.0.0.0", "0.0.0.0", 11435, "http://127.0.0.1:11435", id="wildcard dialled as loopback"),
        pytest.param("0.0.0.0:1", "0.0.0.0", 1, "http://127.0.0.1:1", id="wildcard and port"),
        pytest.param("[::]:1", "::", 1, "http://[::1]:1", id="IPv6 wildcard dialled as loopback"),
        pytest.param(' "box:1" ', "box", 1, "http://box:1", id="quotes and spaces of a careless .env"),
        pytest.param("box:65535", "box", 65535, "http://box:65535", id="highest port"),
        pytest.param("box:0", "box", 0, "http://box:0", id="any free port"),
    ],
)
def test_every_way_to_write_an_address_is_read(text: str, host: str, port: int, base_url: str) -> None:
    address = parse_address(text, source=AddressSource.FLAG)
    assert (address.host, address.port, address.base_url) == (host, port, base_url)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("box:http", "'http' is not a port", id="port is a word"),
        pytest.param("box:65536", "'65536' is not a port", id="port too high"),
        pytest.param("box:-1", "'-1' is not a port", id="port negative"),
        pytest.param("box:٣", "is not a port", id="port in other digits"),
        pytest.param("ftp://box", "starts with ftp://", id="other scheme"),
        pytest.param("unix:///x.sock", "starts with unix://", id="socket"),
        pytest.param("[box]:1", "'box' is not an IPv6 address", id="name in brackets"),
        pytest.param("user@box", "does not read as", id="user name"),
        pytest.param("two words", "does not read as", id="space inside"),
        pytest.param(f"box:{'9' * 5000}", "is not a port", id="a port with more digits than Python reads"),
        pytest.param("\x01", r"'\x01' (from BLAZAR_HOST) cannot be used: it holds invisible", id="control character"),
        pytest.param("a..b", "'a..b' cannot be the name of a machine", id="empty part of a name"),
        pytest.param("x" * 70, "cannot be the name of a machine", id="name longer than any"),
        pytest.param("ä..b", "cannot be the name of a machine", id="empty part beside another script"),
        pytest.param("http://box/a b", "its path has characters that a URL writes as %XX", id="space in the path"),
        pytest.param("http://box/ä", "its path has characters that a URL writes as %XX", id="path beyond ASCII"),
    ],
)
def test_what_is_no_address_is_refused_with_its_source_and_an_example(text: str, words: str) -> None:
    with pytest.raises(AddressInvalid) as refused:
        parse_address(text, source=AddressSource.BLAZAR_HOST)
    assert words in str(refused.value)
    assert "BLAZAR_HOST" in str(refused.value)
    assert "192.168.1.7:11435" in str(refused.value)


BLAZAR = {"BLAZAR_HOST": "b:2"}
OLLAMA = {"OLLAMA_HOST": "o:3"}


@pytest.mark.parametrize(
    ("flag", "environ", "config", "wanted", "source"),
    [
        pytest.param("f:1", BLAZAR | OLLAMA, ("c", 4), ("f", 1), AddressSource.FLAG, id="flag first"),
        pytest.param(None, BLAZAR | OLLAMA, ("c", 4), ("b", 2), AddressSource.BLAZAR_HOST, id="then BLAZAR_HOST"),
        pytest.param(None, OLLAMA, ("c", 4), ("c", 4), AddressSource.CONFIG, id="then the configuration"),
        pytest.param(None, OLLAMA, ("c", None), ("c", 11435), AddressSource.CONFIG, id="configured host, our port"),
        pytest.param(None, OLLAMA, (None, 4), ("127.0.0.1", 4), AddressSource.CONFIG, id="configured port alone"),
        pytest.param(None, OLLAMA, (None, None), ("o", 3), AddressSource.OLLAMA_HOST, id="then OLLAMA_HOST"),
        pytest.param(None, {}, (None, None), ("127.0.0.1", 11435), AddressSource.DEFAULT, id="then the default"),
        pytest.param(
            None, {"BLAZAR_HOST": " "} | OLLAMA, (None, None), ("o", 3), AddressSource.OLLAMA_HOST, id="empty is absent"
        ),
    ],
)
def test_the_first_source_that_names_an_address_decides(
    flag: str | None,
    environ: dict[str, str],
    config: tuple[str | None, int | None],
    wanted: tuple[str, int],
    source: AddressSource,
) -> None:
    address = resolve_address(flag=flag, environ=environ, config_host=config[0], config_port=config[1])
    assert (address.host, address.port) == wanted
    assert address.source is source


@pytest.mark.parametrize(
    ("text", "port"),
    [
        pytest.param("localhost", 9000, id="a bare host of this machine has the configured port"),
        pytest.param("0.0.0.0", 9000, id="so has every interface"),
        pytest.param("localhost:1", 1, id="unless it names one"),
        pytest.param("http://localhost", 80, id="a URL has its scheme's"),
        pytest.param("box", 11435, id="another machine has its own configuration"),
    ],
)
def test_a_bare_host_means_our_port(text: str, port: int) -> None:
    assert resolve_address(flag=text, environ={}, config_port=9000).port == port


def test_the_port_flag_replaces_the_port_of_whichever_address_is_chosen() -> None:
    assert resolve_address(port_flag=7, environ=BLAZAR).base_url == "http://b:7"
    assert resolve_address(port_flag=0, environ={}).port == 0


@pytest.mark.parametrize(
    ("address", "explicit"),
    [
        pytest.param(Address(), False, id="default: the local daemon"),
        pytest.param(Address(source=AddressSource.CONFIG, port=9), False, id="configuration: the local daemon"),
        pytest.param(Address(source=AddressSource.BLAZAR_HOST, port=9), True, id="a variable names another"),
        pytest.param(Address(source=AddressSource.OLLAMA_HOST, port=9), True, id="so does Ollama's"),
        pytest.param(Address(source=AddressSource.FLAG), True, id="and the flag"),
        pytest.param(
            Address(host="0.0.0.0", source=AddressSource.BLAZAR_HOST), False, id="a wildcard names nobody else"
        ),
    ],
)
def test_the_local_socket_is_skipped_only_when_an_address_names_a_daemon(address: Address, explicit: bool) -> None:
    assert address.names_a_daemon is explicit


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("box", False)],
)
def test_only_loopback_addresses_are_private_to_this_machine(host: str, loopback: bool) -> None:
    assert Address(host=host).is_loopback is loopback


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_a_refusal(text: str) -> None:
    try:
        address = parse_address(text, source=AddressSource.FLAG)
    except AddressInvalid:
        return
    assert address.host
    assert 0 <= address.port <= 65535
    # What a client does with it next, and what raises where the address is none.
    assert address.host.encode("idna")
    HTTPConnection(address.host, address.port).putrequest("GET", f"{address.path}/health", skip_host=True)


@given(
    st.from_regex(r"[a-z][a-z0-9-]{0,20}(\.[a-z]{1,5})?", fullmatch=True),
    st.integers(0, 65535),
    st.sampled_from(["http", "https"]),
)
def test_reading_back_the_url_of_an_address_gives_the_same_place(host: str, port: int, scheme: str) -> None:
    address = Address(host=host, port=port, scheme=scheme)
    again = parse_address(address.base_url, source=AddressSource.FLAG)
    assert (again.host, again.port, again.scheme) == (host, port, scheme)

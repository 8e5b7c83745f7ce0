"""Downloads go to the open internet over https, or where the owner said."""

from ipaddress import ip_address

import pytest

from blazar_supervisor.pulls.addresses import AddressPolicy, ForbiddenAddress, host_and_port

POLICY = AddressPolicy.of_sources(["http://127.0.0.1:8080/hub", "https://mirror.lan", ""])


@pytest.mark.parametrize(
    "url",
    [
        "https://hub.example/x",
        "https://93.184.216.34/x",
        "http://127.0.0.1:8080/hub/x",
        "https://mirror.lan/x",
        "HTTPS://MIRROR.LAN:443/x",
    ],
)
def test_allowed(url: str) -> None:
    POLICY.check_url(url)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param("http://hub.example/x", id="plain-http"),
        pytest.param("file:///etc/passwd", id="file"),
        pytest.param("https:///x", id="no-host"),
        pytest.param("https://user:pw@hub.example/x", id="a-password"),
        pytest.param("https://127.0.0.1/x", id="loopback"),
        pytest.param("http://127.0.0.1:8081/x", id="another-port-of-a-trusted-host"),
        pytest.param("https://10.1.2.3/x", id="private"),
        pytest.param("https://169.254.169.254/latest/meta-data", id="link-local"),
        pytest.param("https://[::1]/x", id="loopback-6"),
        pytest.param("https://[::ffff:10.0.0.1]/x", id="private-dressed-as-6"),
        pytest.param("https://[64:ff9b::a00:1]/x", id="private-behind-nat64"),
        pytest.param("https://[fd00::1]/x", id="private-6"),
        pytest.param("https://0.0.0.0/x", id="unspecified"),
    ],
)
def test_forbidden(url: str) -> None:
    with pytest.raises(ForbiddenAddress):
        POLICY.check_url(url)


def test_a_public_name_that_leads_to_a_private_address_is_caught_at_the_connection() -> None:
    with pytest.raises(ForbiddenAddress, match=r"hub\.example is at 10\.0\.0\.1"):
        POLICY.check_address("https://hub.example/x", ip_address("10.0.0.1"))
    POLICY.check_address("https://mirror.lan/x", ip_address("10.0.0.1"))
    POLICY.check_address("https://hub.example/x", ip_address("93.184.216.34"))


def test_ports_are_filled_in() -> None:
    assert host_and_port("https://Hub.Example/x") == "hub.example:443"
    assert host_and_port("http://hub.example") == "hub.example:80"

"""Which addresses are of the open internet."""

from ipaddress import ip_address

import pytest

from blazar_routing.addresses import is_public


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1::1", True),
        ("64:ff9b::5db8:d822", True),
        ("192.168.0.1", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("2002:a00:1::", False),
        ("fe80::1", False),
        ("::ffff:10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("169.254.169.254", False),
    ],
)
def test_public_addresses(address: str, *, public: bool) -> None:
    assert is_public(ip_address(address)) is public

"""Two certificates for tests, for ``localhost`` and 127.0.0.1, each its own authority, valid for a hundred years."""

from pathlib import Path

_FIRST = """\
-----BEGIN CERTIFICATE-----
MIIBrDCCAVGgAwIBAgIUDzVKM0we4GbGrzSXsyq3jx3opuQwCgYIKoZIzj0EAwIw
HDEaMBgGA1UEAwwRYmxhemFyIHRlc3QgZmlyc3QwIBcNMjYxMTMwMTMyODAwWhgP
MjEyNjExMDYxMzI4MDBaMBwxGjAYBgNVBAMMEWJsYXphciB0ZXN0IGZpcnN0MFkw
EwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEcT4lubCGR6tq4JBqmQGHZ5Rfj7L8vc9o
PawZMU1pSE5ckAxoHMkHsxj25zSyJ13cg1m8hxhfGvgRc9tyCrzXFqNvMG0wHQYD
VR0OBBYEFH3U+eHJCqzSv1xtPmF4E8oZdc6ZMB8GA1UdIwQYMBaAFH3U+eHJCqzS
v1xtPmF4E8oZdc6ZMA8GA1UdEwEB/wQFMAMBAf8wGgYDVR0RBBMwEYIJbG9jYWxo
b3N0hwR/AAABMAoGCCqGSM49BAMCA0kAMEYCIQC8t73MpJsPF5XiTiq7P0z0V5oe
/1mkWGajcD8yYseQSQIhANb+BEKL05ScdtKvU+mUE6MCTWTWLZlVccCfFBSvrS0K
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg46aBOnnbtoYI/1gp
spjnYRFNmSDTjfH7oOKDw0YhpGqhRANCAARxPiW5sIZHq2rgkGqZAYdnlF+Psvy9
z2g9rBkxTWlITlyQDGgcyQezGPbnNLInXdyDWbyHGF8a+BFz23IKvNcW
-----END PRIVATE KEY-----
"""

_SECOND = """\
-----BEGIN CERTIFICATE-----
MIIBrDCCAVOgAwIBAgIUb/OQYsCut+1zMSmREZaV9FmqXywwCgYIKoZIzj0EAwIw
HTEbMBkGA1UEAwwSYmxhemFyIHRlc3Qgc2Vjb25kMCAXDTI2MTEzMDEzMjgwMFoY
DzIxMjYxMTA2MTMyODAwWjAdMRswGQYDVQQDDBJibGF6YXIgdGVzdCBzZWNvbmQw
WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASNotqoW4c477TI/Y8ejgaLPVsX49CK
S1B/fnAbU6ldaZEkXa/BFY/3+G3iXYz+gl9S3fbgNDHcFo1iZQ4epfQjo28wbTAd
BgNVHQ4EFgQUvl8ndTRviQ2K/z/oi3bShVRKOQIwHwYDVR0jBBgwFoAUvl8ndTRv
iQ2K/z/oi3bShVRKOQIwDwYDVR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2Nh
bGhvc3SHBH8AAAEwCgYIKoZIzj0EAwIDRwAwRAIgMqUYBH1BYdYAQeMda/M8ZaTI
LJuK08Ghry6MDx2KBcwCID85Ci7SzahpKBZAM5xRjPalAC32xbCAumZMHM50GsQS
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg59zpX8OIm50VI2N8
45OjGlrvRs7GVT6P+IWckB69Fs2hRANCAASNotqoW4c477TI/Y8ejgaLPVsX49CK
S1B/fnAbU6ldaZEkXa/BFY/3+G3iXYz+gl9S3fbgNDHcFo1iZQ4epfQj
-----END PRIVATE KEY-----
"""


def write_pair(folder: Path, *, renewed: bool = False) -> tuple[Path, Path]:
    """Write certificate and key as ``cert.pem`` and ``key.pem``; the renewed ones are others under the same names."""
    pair = _SECOND if renewed else _FIRST
    end = "-----END CERTIFICATE-----\n"
    certificate, _, key = pair.partition(end)
    files = folder / "cert.pem", folder / "key.pem"
    for file, text in zip(files, (certificate + end, key), strict=True):
        partial = file.with_suffix(".new")
        partial.write_text(text, encoding="ascii")
        partial.replace(file)
    return files

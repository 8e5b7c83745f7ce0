"""Stand-ins for engine binaries: small real programs that tests launch."""

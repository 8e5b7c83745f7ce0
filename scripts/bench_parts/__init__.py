"""What `scripts/bench` is made of: an upstream, a bare pass-through, a load, and the table."""

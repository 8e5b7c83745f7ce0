"""What ``scripts/stress`` is made of."""

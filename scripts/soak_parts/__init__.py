"""Parts of ``scripts/soak``."""

"""The blazar command: serve many local models behind one address."""

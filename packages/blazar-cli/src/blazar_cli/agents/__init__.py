"""Coding agents on Blazar: what each has to be told, which daemon and model it gets, and starting it."""

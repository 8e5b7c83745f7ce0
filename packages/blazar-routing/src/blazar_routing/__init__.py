"""Blazar's pure decisions: which engine serves a model, and whose turn it is."""

"""What is peculiar to each engine kind: one folder per kind, all behind :mod:`blazar_supervisor.engines.adapter`."""

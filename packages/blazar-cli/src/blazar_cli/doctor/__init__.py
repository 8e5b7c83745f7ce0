"""``blazar doctor``: one line for each thing that can be wrong, with a verdict and what to do."""

"""Getting models: what a name means, which of its files fit, and fetching them without ever harming what is there."""

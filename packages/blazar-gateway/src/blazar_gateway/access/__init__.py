"""Who may ask, and how much: secrets, keys, quotas. Pure decisions; the clock is passed in."""

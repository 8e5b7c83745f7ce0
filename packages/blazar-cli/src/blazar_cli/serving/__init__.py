"""What the daemon is made of besides gateway and supervisor: sockets, log, rows in memory, its own health."""

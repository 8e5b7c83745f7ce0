"""What the end-to-end tests share: the daemon as a process, a client, and what is left over afterwards."""

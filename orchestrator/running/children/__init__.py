"""Child processes of the driver: how they start, and the host that forks workers."""

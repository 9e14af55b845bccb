"""Ray: its start, its session, Tune as the scheduler, and its leftover processes and files."""

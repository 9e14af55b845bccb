"""Ray: its start, its session, Tune as the scheduler, what it leaves behind."""

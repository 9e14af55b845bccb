"""A sweep while it runs: the driver, the scheduler, workers, progress."""

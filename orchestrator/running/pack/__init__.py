"""One pack in a worker: training, environment, watchdog, reports."""

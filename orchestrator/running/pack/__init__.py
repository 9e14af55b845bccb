"""One pack in a worker: training it, its environment, its watchdog, what it reports."""

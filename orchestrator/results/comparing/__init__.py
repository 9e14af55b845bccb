"""Compare configurations and sweeps over seeds: shared random streams, differences, exact tests."""

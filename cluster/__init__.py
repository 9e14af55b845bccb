"""Start and address the Ray clusters that sweeps run on."""

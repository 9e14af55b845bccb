"""What this machine has: cores and GPUs."""

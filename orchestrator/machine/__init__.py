"""Cores, GPUs, memory and disks of this machine."""

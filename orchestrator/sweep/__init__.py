"""Run, resume, extend and confirm sweeps."""

"""Preview a sweep: forecast, training inputs, names, smoke test."""

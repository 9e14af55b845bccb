"""The verbs plan and data: forecasts of a sweep, and its examples."""

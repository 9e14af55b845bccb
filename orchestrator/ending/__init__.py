"""How a sweep ends: its record, its printed report, its figures and MLflow, and the child process that makes them."""

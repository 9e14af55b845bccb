"""What MLflow gets of a sweep: runs, metrics, names, pages."""

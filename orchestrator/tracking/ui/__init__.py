"""lengthwise ui: MLflow's server and the links to its charts."""

"""What hyperparameters, averages and stopping did to the score."""

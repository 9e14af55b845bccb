"""Language modelling: predicting the next token of texts."""

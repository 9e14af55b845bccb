"""Tasks of remembering: what was written last, what is to be copied, what followed a token."""

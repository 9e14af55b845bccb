"""Set complement and Othello: the claims of arXiv:2510.08341."""

"""Threshold relative attention: the claims of arXiv:2503.23174."""

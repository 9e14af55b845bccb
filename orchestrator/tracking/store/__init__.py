"""The store that is published to."""

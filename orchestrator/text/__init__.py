"""Format, redact and print texts for users."""

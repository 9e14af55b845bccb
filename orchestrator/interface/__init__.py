"""Define the interface to trainers: their methods, and the measurements of members."""

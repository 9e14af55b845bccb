"""SweepSpec: every key of a sweep file, its values, its schema."""

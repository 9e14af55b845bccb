"""SweepSpec: the keys of a sweep file, their values and their schema."""

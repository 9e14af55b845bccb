"""The HTML page of a sweep: its data, its text, and the files for the browser."""

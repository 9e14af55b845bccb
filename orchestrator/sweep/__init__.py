"""The story of a sweep: begin, resume, confirm."""

"""The story of a sweep: begin, resume, extend, confirm."""

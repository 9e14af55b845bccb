"""The story of a sweep: begin, resume, confirm, and how it ends."""

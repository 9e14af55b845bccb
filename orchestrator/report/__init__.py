"""What is written from a Summary: page, tables, terminal."""

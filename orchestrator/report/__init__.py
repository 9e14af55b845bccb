"""Write a Summary as a page, tables and terminal output."""

"""What is wrong with a sweep file beyond its grammar, found before anything is written."""

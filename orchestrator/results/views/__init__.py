"""Views of the results: rounds of a race."""

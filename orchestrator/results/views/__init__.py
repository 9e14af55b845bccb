"""Views of the results: families of metrics, steps to a threshold, rounds of a race."""

"""The progress of a sweep, in numbers and on the screen."""

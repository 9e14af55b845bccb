"""How far a sweep is, in numbers and on the screen."""

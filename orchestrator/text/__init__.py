"""How texts for people are made: words for keys and values, what is left out of them, and where they are printed."""

"""Claims put to sweeps: a value for each seed, a question with its interval, a verdict, and the page that says so."""

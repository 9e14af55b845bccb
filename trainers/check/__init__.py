"""Classes of your own, checked before a sweep runs: what they declare, and one step with them."""

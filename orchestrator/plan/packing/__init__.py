"""Packs: groups of members of equal structure, cut so that all workers finish together."""

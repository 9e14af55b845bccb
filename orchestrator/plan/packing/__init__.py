"""Packs: groups of members of equal structure, sized so that all workers finish together."""

"""Packs: members of equal structure, cut so that the workers end together."""

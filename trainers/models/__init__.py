"""Models, a file each, and the attention, blocks and dropout that they are made of."""

"""Files of a pack: checkpoints and kept weights, whole or not at all."""

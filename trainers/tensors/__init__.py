"""Tensors of a pack: batches, parameters, noise, masks, precision, and the layers made of them."""

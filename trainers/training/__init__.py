"""Training of a pack: the loop, one step, compiled or captured as a CUDA graph, and its cost."""

"""How a pack is trained: the loop, one step, compiled or recorded as a graph, and what it costs."""

"""Members of a pack as tensors: active and finished ones, their batches, what they are evaluated on."""

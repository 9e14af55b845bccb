"""The shipped optimizers; each is tested member by member against `torch.optim` or the formulas of its paper."""

"""The shipped optimizers; each is tested against `torch.optim`, or the formulas of its paper, member by member."""

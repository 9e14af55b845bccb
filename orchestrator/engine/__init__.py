"""The engine of `trainers/` as a trainer: packs of stacked members, kept weights, exact resumption."""

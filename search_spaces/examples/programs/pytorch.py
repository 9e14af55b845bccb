"""Train a GRU on the majority of bits in plain PyTorch: are there more ones than zeros?

    bits 1 0 1 1 0 -> class 1, trained on 5 to 11 bits, tested on up to 41

Alone: python pytorch.py --lr=0.01. In a sweep: lengthwise run pytorch.yaml. Numbered lines are for lengthwise.
"""

import argparse

import torch
from torch import nn

import lengthwise

LENGTHS = (5, 11, 21, 41)


class Majority(nn.Module):
    """A GRU that reads bits and returns two logits."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(2, width)
        self.head = nn.Linear(width, 2)
        self.gru = nn.GRU(width, width, batch_first=True)

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        """Return the logits (rows, 2) of bits (rows, length)."""
        return self.head(self.gru(self.embed(bits))[0][:, -1])


def draw_rows(length: int, rows: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random bits (rows, length) and labels (rows,): 1 if most bits are 1. `length` is odd."""
    bits = torch.randint(2, (rows, length), generator=generator)
    return bits, (2 * bits.sum(dim=1) > length).long()


@torch.no_grad()
def evaluate(model: nn.Module) -> dict[int, float]:
    """Return the accuracy by length, on the same inputs for every seed."""
    generator = torch.Generator().manual_seed(0)
    tests = {length: draw_rows(length, 200, generator) for length in LENGTHS}
    return {
        length: (model(bits).argmax(1) == is_majority).float().mean().item()
        for length, (bits, is_majority) in tests.items()
    }


def main() -> None:
    """Train from the last checkpoint, or from the start without a checkpoint; report and save when it is due."""
    # The seed comes before the model, because it decides the initial weights.
    parser = argparse.ArgumentParser()
    for name, default in (("lr", 0.01), ("width", 16), ("seed", 0), ("steps", 200)):
        parser.add_argument(f"--{name}", type=type(default), default=default)
    args = parser.parse_args()
    run = lengthwise.member(steps=args.steps, every=50)  # 1
    torch.manual_seed(args.seed)
    generator = torch.Generator().manual_seed(args.seed)
    model = Majority(args.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    # A member that was killed or paused starts this script again; the generator then draws the same rows.
    start = 0
    checkpoint = run.checkpoints / "last.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        start = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        generator.set_state(state["generator"])

    # A checkpoint is saved after the report: resumed from it, no report is missing.
    for step in range(start + 1, args.steps + 1):
        length = 5 + 2 * int(torch.randint(4, (), generator=generator))
        bits, is_majority = draw_rows(length, 32, generator)
        loss = nn.functional.cross_entropy(model(bits), is_majority)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.due(step):  # 2
            stop = run.report(step, {"accuracy": evaluate(model)}, loss=loss.item())  # 3
            state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state | {"generator": generator.get_state()}, checkpoint.with_suffix(".new"))
            checkpoint.with_suffix(".new").replace(checkpoint)  # so that a killed program leaves a complete file
            if stop:
                return


if __name__ == "__main__":
    main()

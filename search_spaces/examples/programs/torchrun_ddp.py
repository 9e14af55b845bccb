"""Train on the majority of bits with two processes of torchrun; rank 0 reports and tells the others when to stop."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import lengthwise

LENGTHS = (5, 11, 21, 41)


class Majority(nn.Module):
    """Two layers on the mean of embedded bits."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.embed = nn.EmbeddingBag(2, width, mode="mean")
        self.layers = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, bits: torch.Tensor) -> torch.Tensor:
        """Return the logits (rows, 2) of bits (rows, length)."""
        return self.layers(self.embed(bits))


def draw_rows(length: int, rows: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return random bits (rows, length) and labels (rows,): 1 if most bits are 1. `length` is odd."""
    bits = torch.randint(2, (rows, length), generator=torch.Generator().manual_seed(seed))
    return bits, (2 * bits.sum(dim=1) > length).long()


@torch.no_grad()
def evaluate(model: nn.Module) -> dict[int, float]:
    """Return the accuracy by length."""
    tests = {length: draw_rows(length, 200, seed=0) for length in LENGTHS}
    return {
        length: (model(bits).argmax(1) == is_majority).float().mean().item()
        for length, (bits, is_majority) in tests.items()
    }


def main() -> None:
    """Train from the last checkpoint, or from the start without a checkpoint, on every rank."""
    # DistributedDataParallel copies the weights of rank 0, which the seed decides.
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    run = lengthwise.member(steps=100, every=25)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(Majority(16))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    # A member that was killed or paused starts all ranks again; each reads the checkpoint of rank 0.
    start = 0
    checkpoint = run.checkpoints / "last.pt"
    if checkpoint.exists():
        state = torch.load(checkpoint)
        start = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])

    # A rank that went on alone would wait for the others for ever, so rank 0 broadcasts whether to stop.
    for step in range(start + 1, run.steps + 1):
        bits, is_majority = draw_rows(5 + 2 * (step % 4), 32, seed=(args.seed * run.steps + step) * ranks + rank)
        loss = nn.functional.cross_entropy(model(bits), is_majority)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if run.due(step):
            stop = torch.tensor(run.report(step, {"accuracy": evaluate(model.module)}, loss=loss.item()))
            dist.broadcast(stop, src=0)
            if rank == 0:
                state = {"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(state, checkpoint.with_suffix(".new"))
                checkpoint.with_suffix(".new").replace(checkpoint)
            if stop:
                break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

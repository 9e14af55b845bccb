"""Train a small GRU to tell whether a row of bits has more ones than zeros. Numbered lines are for lengthwise.

Alone: python train.py --lr=0.01
"""

import argparse

import torch
from torch import nn

import lengthwise  # one file without dependencies; may be copied beside this script

LENGTHS = (5, 11, 21, 41)  # as in sweep.yaml

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

run = lengthwise.member(steps=200, every=50)  # 1: in a sweep, sweep.yaml sets steps and every
torch.manual_seed(args.seed)
embed = nn.Embedding(2, args.width)
gru = nn.GRU(args.width, args.width, batch_first=True)
head = nn.Linear(args.width, 2)
model = nn.ModuleList([embed, gru, head])
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)


def compute_logits(bits):
    """Return logits (rows, 2) for bits (rows, length)."""
    return head(gru(embed(bits))[0][:, -1])


def draw_rows(length, rows, generator=None):
    """Return random bits (rows, length), and 1 for rows with more ones than zeros, else 0; `length` is odd."""
    bits = torch.randint(2, (rows, length), generator=generator)
    return bits, (2 * bits.sum(dim=1) > length).long()


for step in range(1, run.steps + 1):
    bits, is_majority = draw_rows(2 * int(torch.randint(2, 6, ())) + 1, 64)  # 5 to 11 bits
    loss = nn.functional.cross_entropy(compute_logits(bits), is_majority)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

    if run.due(step):  # 2: every 50 steps, and at the end
        with torch.no_grad():
            tests = {length: draw_rows(length, 200, torch.Generator().manual_seed(0)) for length in LENGTHS}
            accuracy = {
                length: (compute_logits(bits).argmax(1) == is_majority).float().mean().item()
                for length, (bits, is_majority) in tests.items()
            }
        if run.report(step, {"accuracy": accuracy}, loss=loss.item()):  # 3: True if the sweep asks to stop
            break

"""Train a small GRU to tell whether a row of bits has more ones. The numbered lines are for lengthwise.

By itself: python train.py --lr=0.01
"""

import argparse

import torch
from torch import nn

import lengthwise  # one file without dependencies; may be copied beside this script

LENGTHS = (5, 11, 21, 41)  # those of sweep.yaml

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--seed", type=int, default=0)
args = parser.parse_args()

run = lengthwise.member(steps=200, every=50)  # 1: in a sweep, steps and every are those of sweep.yaml
torch.manual_seed(args.seed)
embed, gru = nn.Embedding(2, args.width), nn.GRU(args.width, args.width, batch_first=True)
head = nn.Linear(args.width, 2)
model = nn.ModuleList([embed, gru, head])
optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)


def logits(bits):
    """Return logits (rows, 2) for bits (rows, length)."""
    return head(gru(embed(bits))[0][:, -1])


def draw(length, rows, generator=None):
    """Return bits (rows, length) with an odd length, and which rows have more ones."""
    bits = torch.randint(2, (rows, length), generator=generator)
    return bits, (2 * bits.sum(dim=1) > length).long()


for step in range(1, run.steps + 1):
    bits, more = draw(2 * int(torch.randint(2, 6, ())) + 1, 64)  # 5 to 11 bits
    loss = nn.functional.cross_entropy(logits(bits), more)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

    if run.due(step):  # 2: every 50 steps, and at the end
        with torch.no_grad():
            tests = {length: draw(length, 200, torch.Generator().manual_seed(0)) for length in LENGTHS}
            accuracy = {n: (logits(bits).argmax(1) == more).float().mean().item() for n, (bits, more) in tests.items()}
        if run.report(step, {"accuracy": accuracy}, loss=loss.item()):  # 3: True when the sweep wants to stop here
            break

"""Write largest_train.csv and largest_test.csv: digits and the largest digit, which is drawn first."""

import csv
import random
from pathlib import Path

draw = random.Random(0)
for name, lengths in (("train", range(2, 9)), ("test", (2, 4, 8, 12, 16, 24, 32))):
    with Path(__file__).with_name(f"largest_{name}.csv").open("w", newline="") as file:
        csv.writer(file).writerow(["digits", "largest"])
        for length in [length for length in lengths for _ in range(60)]:
            largest = draw.randrange(10)
            digits = [largest, *(draw.randint(0, largest) for _ in range(length - 1))]
            csv.writer(file).writerow([" ".join(map(str, draw.sample(digits, length))), largest])

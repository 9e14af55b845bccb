"""Write largest_train.csv and largest_test.csv: random digits and the largest of them."""

import csv
import random
from pathlib import Path

generator = random.Random(0)
for name, lengths in (("train", range(2, 9)), ("test", (2, 4, 8, 12, 16, 24, 32))):
    with Path(__file__).with_name(f"largest_{name}.csv").open("w", newline="") as file:
        csv.writer(file).writerow(["digits", "largest"])
        for length in [length for length in lengths for _ in range(60)]:
            # Draw the largest digit first, so that all are equally frequent.
            largest = generator.randrange(10)
            digits = [largest, *(generator.randint(0, largest) for _ in range(length - 1))]
            csv.writer(file).writerow([" ".join(map(str, generator.sample(digits, length))), largest])

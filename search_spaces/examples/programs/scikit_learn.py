"""Fit handwritten digits with scikit-learn: no lengths and no steps, so each metric is a number, reported once."""

import sys

from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

import lengthwise


def main() -> None:
    """Fit a classifier and report its accuracy."""
    # The sweep passes words such as C=0.1 and seed=3; the seed draws the split.
    run = lengthwise.member(steps=1)
    values = dict(word.split("=") for word in sys.argv[1:])
    seed = int(values.pop("seed", run.seed))

    # A fit has no steps to follow, so its result is that of step 1 of 1.
    images, digits = load_digits(return_X_y=True)
    train, test, train_digits, test_digits = train_test_split(images / 16, digits, train_size=300, random_state=seed)
    model = LogisticRegression(C=float(values.pop("C", 1.0)), max_iter=500).fit(train, train_digits)
    run.report(1, {"accuracy": model.score(test, test_digits)})


if __name__ == "__main__":
    main()

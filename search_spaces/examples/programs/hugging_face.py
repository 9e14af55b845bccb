"""Train BERT on the majority of bits with the Trainer of Hugging Face; the callback `Report` connects lengthwise."""

import argparse
from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint

import lengthwise

LENGTHS = (5, 11, 21, 41)


class Report(TrainerCallback):
    """A callback that reports at the steps of lengthwise, saves, and stops the training if lengthwise asks for it."""

    def __init__(self, run: lengthwise.Member, evaluate: Any) -> None:
        self.run = run
        self.evaluate = evaluate

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> Any:
        """Report if it is due; return the trainer's control with a save, and a stop if lengthwise asks for it."""
        if self.run.due(state.global_step):
            model.eval()
            stop = self.run.report(state.global_step, {"accuracy": self.evaluate(model)})
            model.train()
            control.should_save = True
            control.should_training_stop |= stop
        return control


class Bits(torch.utils.data.Dataset):
    """A data set of random rows of bits, labelled 1 if most bits are 1; `length` is odd."""

    def __init__(self, length: int, rows: int, seed: int) -> None:
        bits = torch.randint(2, (rows, length), generator=torch.Generator().manual_seed(seed))
        self.bits = bits
        self.is_majority = (2 * bits.sum(1) > length).long()

    def __len__(self) -> int:
        return len(self.bits)

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.bits[row], "labels": self.is_majority[row]}


@torch.no_grad()
def evaluate(model: torch.nn.Module) -> dict[int, float]:
    """Return the accuracy by length."""
    tests = {length: Bits(length, 200, seed=0) for length in LENGTHS}
    return {
        length: (model(test.bits).logits.argmax(1) == test.is_majority).float().mean().item()
        for length, test in tests.items()
    }


def main() -> None:
    """Train from the last checkpoint, or from the start without a checkpoint."""
    # The seed comes before the model, because it decides the initial weights.
    parser = argparse.ArgumentParser()
    parser.add_argument("--learning_rate", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    run = lengthwise.member(steps=100, every=25)
    set_seed(args.seed)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertForSequenceClassification(BertConfig(vocab_size=2, max_position_embeddings=max(LENGTHS), **sizes))

    # Only the callback saves, so that every report has a checkpoint, in the folder that lengthwise keeps.
    arguments = TrainingArguments(
        output_dir=str(run.checkpoints),
        max_steps=run.steps,
        learning_rate=args.learning_rate,
        per_device_train_batch_size=32,
        seed=args.seed,
        save_strategy="no",
        save_total_limit=2,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model, arguments, train_dataset=Bits(11, 1000, seed=args.seed), callbacks=[Report(run, evaluate)])

    # A member that was killed or paused starts this script again.
    last = get_last_checkpoint(arguments.output_dir) if Path(arguments.output_dir).is_dir() else None
    trainer.train(resume_from_checkpoint=last)


if __name__ == "__main__":
    main()

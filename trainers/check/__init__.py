"""Checks of registered classes: a few training steps and an evaluation of a small model.

`python -m trainers.check my_tasks` checks the classes that the module my_tasks (in the current folder, or installed)
registers, and runs the examples of their docstrings. `lengthwise validate` and `run` call `check_task`,
`check_model`, `check_optimizer` and `check_metrics` with the settings of a sweep.
"""

from trainers.check.check_classes import check_class, check_metrics, check_model, check_optimizer, check_task

__all__ = ["check_class", "check_metrics", "check_model", "check_optimizer", "check_task"]

"""`python -m trainers.check my_tasks`."""

import sys

from trainers.check.classes import main

sys.exit(main(sys.argv[1:]))

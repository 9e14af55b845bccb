"""The modules of this folder, as `python tests/studies/run.py` finds them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

"""The modules of this folder, as `python tests/side_by_side/compare.py` finds them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

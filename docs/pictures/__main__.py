"""Write the pictures: `python -m docs.pictures`; with `--check` nothing is written."""

import sys

from docs.generate import written
from docs.pictures import FOLDER, pictures

sys.exit(written({FOLDER / name: text for name, text in pictures().items()}, sys.argv[1:]))

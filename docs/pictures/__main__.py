"""Write the pictures: `python -m docs.pictures`."""

import sys

from docs.pictures import FOLDER, pictures

for name, text in pictures().items():
    (FOLDER / name).write_text(text, encoding="utf-8")
    sys.stdout.write(f"wrote {FOLDER / name}\n")

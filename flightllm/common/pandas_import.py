"""pyarrow's import of pandas, which takes longer than the work on a small file."""

import sys


class _NoPandas:
    """A finder that finds no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse pandas, and leave other modules to the other finders."""
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError(name)


def put_off_pandas() -> None:
    """Keep pyarrow from importing pandas, where it is installed, for its first array.

    pyarrow looks for pandas once, to know its missing values in Python's lists. Afterwards it does not know them in
    this process; `to_pandas` still imports pandas. Does nothing if pyarrow has looked already.
    """
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([""])
    finally:
        sys.meta_path.remove(finder)

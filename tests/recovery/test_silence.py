"""Which silence of a process means that it hangs."""

import pytest

from flightllm.recovery.silence import Silence

HOUR_AGO = -3_600.0


@pytest.mark.parametrize(
    ("looks", "found"),
    [("....", 4), ("xxx....", 7), ("...x" * 5, None), (".xxxxxxxx", None), ("-" * 9, None), ("--....", 6)],
    ids=["silent", "silent later", "slow", "frozen", "starting", "silent once it listens"],
)
def test_who_hangs(looks: str, found: int | None) -> None:
    """A process hangs at the fourth look in a row that finds it silent, and not before.

    The clock alone decides nothing. After `docker pause` it says that the process was silent for an hour, but nobody
    looked.
    """
    heard = HOUR_AGO
    silence = Silence(heard)
    hung = []
    for number, look in enumerate(looks, 1):  # `x`: the process was heard before this look, `-`: it is starting
        heard += look == "x"
        if silence.hangs(heard, listening=look != "-"):
            hung.append(number)
    assert hung == ([] if found is None else [found])

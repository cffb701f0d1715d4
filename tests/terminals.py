"""A command in a real terminal, and what a person sees of it."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
from collections.abc import Callable, Mapping, Sequence

_CODE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A process in a pseudo-terminal. `text` is all that the process has written, with the codes for the terminal."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        columns: int = 80,
        lines: int = 40,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.text = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")()  # a piece can end within a letter
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        # This terminal does not answer where its cursor is, and the shell would wait for that.
        environment = {**kept, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1", **(environment or {})}
        self._process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)

    def read_until(self, reached: Callable[[], bool], seconds: float = 60) -> None:
        """Read what the process writes until a condition holds, or the process ends.

        Raises:
            TimeoutError: neither happened.
        """
        while not reached():
            if not select.select([self._ours], [], [], seconds)[0]:
                raise TimeoutError(f"the terminal shows {self.screen()}")
            try:
                piece = os.read(self._ours, 65_536)
            except OSError:  # Linux reports the end so
                return
            if not piece:
                return
            self.text += self._decoder.decode(piece)

    def type(self, text: str) -> None:
        """Type a text."""
        os.write(self._ours, text.encode())

    def finish(self) -> int:
        """Read to the end of the process; return its exit code."""
        self.read_until(lambda: False)
        os.close(self._ours)
        return self._process.wait()

    def screen(self) -> list[str]:
        """Return the lines as a person sees them; see `seen`."""
        return seen(self.text)


def seen(text: str) -> list[str]:
    """Return the lines that a terminal shows after a text: carriage returns and deleted lines have their effect."""
    lines, column, place = [""], 0, 0
    while place < len(text):
        code = _CODE.match(text, place)
        letter = text[place]
        place = code.end() if code else place + 1
        if code:
            lines[-1] = "" if code[0] == "\x1b[2K" else lines[-1]
        elif letter == "\n":
            lines.append("")
        elif letter == "\r":
            column = 0
        else:
            lines[-1] = lines[-1][:column].ljust(column) + letter + lines[-1][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]

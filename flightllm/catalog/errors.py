"""DataFusion's errors, turned into ours once: it raises builtin exceptions whose text says what happened."""

import errno
import re

from flightllm.errors import FlightLLMError, LimitExceededError, SqlError, UnsupportedError

_PREFIX = re.compile(
    r"^(?:DataFusion error|Error during planning|Schema error|SQL error|Execution error|Arrow error|External error"
    r"|Invalid argument error|type_coercion|caused by|Optimizer rule '\w+' failed)(?:: |\s+)"
)
_PARSER = re.compile(r'^ParserError\("(?P<text>.*)"\)$', re.DOTALL)
_NOISE = re.compile(
    r"Internal error: (?:Function '\w+' failed to match any signature.*?(?=No function matches))?"
    r"|\.*\s*This issue was likely caused by a bug in DataFusion's code\.[^\n]*?apache/datafusion/issues",
    re.DOTALL,
)
"""DataFusion calls wrong types an error of its own and asks to report it; what to write instead follows."""
_NO_ROOM = "No space left on device"
_UNSUPPORTED = "This feature is not implemented: "


def mapped_error(error: Exception) -> FlightLLMError:
    """Return our error for one that DataFusion raised while it planned or ran SQL; one of ours is returned as it is."""
    if isinstance(error, FlightLLMError):
        return error
    text = _stripped(str(error))
    if _NO_ROOM in text or (isinstance(error, OSError) and error.errno == errno.ENOSPC):
        return no_room()
    if "Resources exhausted" in text:
        return LimitExceededError(f"the query needs more memory than [limits] memory_bytes allows: {text}")
    if _UNSUPPORTED in text:
        return UnsupportedError(text.replace(_UNSUPPORTED, "not supported: "))
    if "RecursionLimitExceeded" in text:
        return LimitExceededError("the SQL text is nested too deeply (50 levels): use WITH, or shorter expressions")
    return SqlError(text)


def no_room() -> LimitExceededError:
    """Return the error of a query that spills more than there is room for on the disk."""
    return LimitExceededError(
        "the disk is full where queries spill what does not fit into [limits] memory_bytes: free some space, or name "
        "another folder with [limits] spill_folder"
    )


def _stripped(text: str) -> str:
    while match := _PREFIX.match(text):
        text = text[match.end() :]
    if parser := _PARSER.match(text):
        text = f"syntax error: {parser['text']}"
    return _NOISE.sub("", text).strip()

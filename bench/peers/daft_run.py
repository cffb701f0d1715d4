"""Run one task in Daft, in Daft's own environment: reads the task as JSON and prints the seconds as JSON."""

import json
import sys
import time
from pathlib import Path

import daft
from daft.ai.openai.provider import OpenAIProvider
from daft.functions import format as format_text
from daft.functions import prompt

_AT_ONCE = 256
"""Rows per batch. Daft sends the requests of a whole batch at once, and with 2,000 rows its HTTP client hangs."""


def main() -> None:
    """Run the task; print its seconds without those of imports and of reading the rows."""
    task = json.loads(sys.argv[1])
    with Path(task["rows"]).open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    parts = [daft.from_pylist(rows[start : start + _AT_ONCE]).collect() for start in range(0, len(rows), _AT_ONCE)]
    instruction = task["prompt"]
    options = {"temperature": 0.0, "max_tokens": task["max_tokens"], "use_chat_completions": True}
    if task["filter"]:
        instruction = f"{instruction}\n\nAnswer Yes if this is so, otherwise No."
        options["extra_body"] = {"structured_outputs": {"choice": ["Yes", "No"]}}
    fields = "\n".join(f"{name}: {{}}" for name in task["fields"])
    answer = prompt(
        format_text(fields, *(daft.col(name) for name in task["fields"])),
        system_message=instruction,
        provider=OpenAIProvider(base_url=f"{task['url']}/v1", api_key="none"),
        model=task["model"],
        **options,
    )
    started, count = time.perf_counter(), 0
    for part in parts:
        result = part.where(answer == "Yes") if task["filter"] else part.with_column("answer", answer)
        count += result.collect().count_rows()
    print(json.dumps({"seconds": time.perf_counter() - started, "rows": count}))


if __name__ == "__main__":
    main()

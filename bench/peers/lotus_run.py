"""Run one task in LOTUS, in LOTUS's own environment: reads the task as JSON and prints the seconds as JSON."""

import json
import sys
import time
from typing import Any

import lotus
import pandas as pd
from lotus.models import LM


def main() -> None:
    """Run the task; print its seconds without those of imports and of reading the rows."""
    task = json.loads(sys.argv[1])
    rows: Any = pd.read_json(task["rows"], lines=True)
    constraint = {"extra_body": {"structured_outputs": {"choice": ["True", "False"]}}} if task["filter"] else {}
    model = LM(
        model=f"hosted_vllm/{task['model']}",
        api_base=f"{task['url']}/v1",
        api_key="none",
        max_tokens=task["max_tokens"],
        **constraint,
    )
    lotus.settings.configure(lm=model)
    instruction = f"{task['prompt']} {' '.join('{' + name + '}' for name in task['fields'])}"
    started = time.perf_counter()
    result = rows.sem_filter(instruction) if task["filter"] else rows.sem_map(instruction)
    print(json.dumps({"seconds": time.perf_counter() - started, "rows": len(result)}))


if __name__ == "__main__":
    main()

"""The texts of EXPLAIN: DataFusion's plans without folders, and the indexes that a query searches."""

import json
import re

from datafusion import DataFrame, SessionContext

from flightllm.common.names import TableName
from flightllm.datafusion.run import with_plan
from flightllm.execution.context import Services
from flightllm.functions.call import SEARCH
from flightllm.learning.learned import LateFit
from flightllm.sql.calls import Extracted
from flightllm.vector.status import status

_SIZES = re.compile(
    r"(?:, )?(?:partitions=\d+, )?partition_sizes=\[[^\]]*\]|(?:, )?statistics=\[.*?\](?=$|,|\n)|, input_partitions=\d+"
)
_FILE_GROUPS, _BETWEEN_PATHS = "file_groups={", re.compile(r"([\[\],\s])")
"""The parts of a physical plan that hold file paths; clients must not see the folders."""


def datafusion_plans(
    frame: DataFrame, physical: str | None = None, context: SessionContext | None = None
) -> list[tuple[str, str]]:
    """Return titles and texts of DataFusion's plans; with a given `physical` plan, nothing is evaluated here."""
    if physical is not None:
        return [
            ("logical_plan", frame.logical_plan().display_indent()),
            ("physical_plan", without_folders(physical)),
        ]
    physical = with_plan(frame, context, lambda planned: planned.execution_plan().display_indent())
    return [
        ("logical_plan", frame.optimized_logical_plan().display_indent()),
        ("physical_plan", without_folders(physical)),
    ]


def without_folders(physical: str) -> str:
    """Return a physical plan with the names of files, but without their folders."""
    before, *groups = physical.split(_FILE_GROUPS)
    return _FILE_GROUPS.join([before, *map(_files_alone, groups)])


def without_sizes(plan: str) -> str:
    """Return a physical plan without the sizes of its tables: no files, bytes or partitions."""
    before, *groups = _SIZES.sub("", plan).split(_FILE_GROUPS)
    return f"{_FILE_GROUPS}…}}".join([before, *(group.partition("}")[2] for group in groups)])


def _files_alone(groups: str) -> str:
    """Return a text without the folders of the paths before its first closing brace."""
    paths, brace, after = groups.partition("}")
    return "".join(path.rpartition("/")[2] for path in _BETWEEN_PATHS.split(paths)) + brace + after


def late_fits(extracted: Extracted) -> list[LateFit]:
    """Return the fits that a query makes when it runs."""
    return [one for one in extracted.opened if isinstance(one, LateFit) and one.fit is None]


def index_lines(extracted: Extracted, services: Services) -> list[tuple[str, str]]:
    """Return a title and a text for each index that a query searches, and for each fit that it makes first."""
    searched = {json.loads(c.instruction)["index"] for c in extracted.calls.values() if c.backend == SEARCH}
    lines = [("fit of labels", fit.about) for fit in late_fits(extracted)]
    for name in sorted(searched | extracted.searched):
        manifest = services.indexes.manifest(name)
        over = f"{TableName(*manifest.table).display}({manifest.column})"
        state = status(manifest, services.catalog.revision, services.config.embedding.model)
        lines.append((f"vector index {name}", f"{manifest.options.type} over {over}, {manifest.rows:,} rows: {state}"))
    return lines

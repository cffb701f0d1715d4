"""The parts of a plan as a graph: each part names the parts whose rows it reads."""

from dataclasses import dataclass

from datafusion.plan import LogicalPlan


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A stage, an AI operator or another part of a plan. The first part of a plan runs last."""

    kind: str
    """The type of the part, such as `stage` and `ai operator`; for a relational operator its name in DataFusion."""
    name: str
    """A name that no other part of the plan has."""
    text: str
    inputs: tuple[str, ...] = ()
    """The names of the parts that this part reads."""
    operators: tuple[str, ...] = ()
    """For a stage: the relational operators in it, the last to run first."""

    @property
    def title(self) -> str:
        """Return the title of the part's text."""
        return f"{self.kind} {self.name}"


def unique(parts: list[PlanPart]) -> list[PlanPart]:
    """Return each part once: several stages can read the same part."""
    return list({part.name: part for part in parts}.values())


def relational_parts(plan: LogicalPlan) -> list[PlanPart]:
    """Return one part for each relational operator of a plan; the names are numbers."""
    found: list[PlanPart] = []
    waiting, numbered = [(plan, 1)], 1
    while waiting:
        node, number = waiting.pop()
        below = [(child, numbered + n) for n, child in enumerate(node.inputs(), start=1)]
        numbered += len(below)
        names = tuple(str(n) for _, n in below)
        found.append(PlanPart(operator_name(node), str(number), node.display(), names))
        waiting += reversed(below)
    return found


def operators(plan: LogicalPlan) -> tuple[str, ...]:
    """Return the names of a plan's relational operators, the last to run first."""
    return tuple(part.kind for part in relational_parts(plan))


def operator_name(node: LogicalPlan) -> str:
    """Return a short name of a relational operator; for a scan with its table."""
    try:
        variant = node.to_variant()
    except Exception:  # noqa: BLE001 - DataFusion raises this class for operators without a Python class
        return node.display().partition(":")[0].partition(" ")[0]
    kind = type(variant).__name__
    return f"{kind} {variant.table_name()}" if kind == "TableScan" else kind

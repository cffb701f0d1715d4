"""Read DataFusion's expressions."""

from typing import Any


def unaliased(expression: Any) -> Any:
    """Return an expression of DataFusion without its outer aliases: of `(a + 1) AS b`, return `a + 1`."""
    while expression.variant_name() == "Alias":
        expression = expression.to_variant().expr()
    return expression

"""How a contract is refused: with its file, the field, the problem and the remedy."""

from __future__ import annotations

from stream_assets.errors import ContractError


def require(condition: object, file: str, field: str, problem: str, remedy: str) -> None:
    """Raise `ContractError` unless the condition holds."""
    if not condition:
        raise ContractError(file, field, problem, remedy)

"""A contract document under inspection: what the checks ask of it, and how they refuse it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from stream_assets.contracts.model import ENVELOPE
from stream_assets.errors import ContractError

_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]{0,62}")


@dataclass(frozen=True)
class Draft:
    """A file and what it says. Sound by the official schema, nothing more: any value may still be of any type."""

    file: str
    document: dict[str, Any]

    def require(self, condition: object, field: str, problem: str, remedy: str) -> None:
        """Refuse the contract, with the problem and the remedy, unless the condition holds."""
        if not condition:
            raise ContractError(self.file, field, problem, remedy)

    @property
    def custom(self) -> dict[str, Any]:
        """The contract's custom properties."""
        return custom_properties(self.document)

    @property
    def table(self) -> dict[str, Any]:
        """The one table it describes."""
        return self.document["schema"][0]

    @property
    def properties(self) -> list[dict[str, Any]]:
        """The columns it describes."""
        return self.table["properties"]

    @property
    def columns(self) -> list[str]:
        """The names of all columns, those of the envelope included."""
        names = [prop["name"] for prop in self.properties]
        return names + [column.name for column in ENVELOPE if self.custom.get("envelope")]


def custom_properties(holder: dict[str, Any]) -> dict[str, Any]:
    """The custom properties of a contract, a column or a server, by name."""
    return {item["property"]: item["value"] for item in holder.get("customProperties", [])}


def is_identifier(name: object) -> bool:
    """Whether a name can be a table or a column everywhere."""
    return isinstance(name, str) and bool(_IDENTIFIER.fullmatch(name))


def is_number(value: object) -> bool:
    """Whether it is a number; YAML's true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)

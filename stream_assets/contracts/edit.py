"""Edits the text of a contract in place, so that comments and layout stay as people wrote them."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from stream_assets.contracts.load import load_contract
from stream_assets.contracts.propose import Proposal, to_property


@dataclass(frozen=True)
class Edit:
    """Text that takes the place of a stretch of characters."""

    start: int
    end: int
    text: str


def write_proposal(proposal: Proposal) -> None:
    """Put a proposal into the contract's file, whole or not at all: a result that would be refused is not written."""
    file = proposal.contract.file
    with TemporaryDirectory(dir=file.parent, prefix=".proposal-") as made:
        draft = Path(made) / file.name
        draft.write_text(edit_text(file.read_text(encoding="utf-8"), proposal), encoding="utf-8")
        load_contract(draft)
        shutil.copymode(file, draft)
        draft.replace(file)


def edit_text(text: str, proposal: Proposal) -> str:
    """The text of the contract with the proposal in it."""
    document: Any = yaml.compose(text, Loader=yaml.SafeLoader)
    properties = _value(_value(document, "schema").value[0], "properties")
    by_name = {_value(item, "name").value: item for item in properties.value}
    edits = [_replace(_value(document, "version"), proposal.version)]
    edits += [_replace(_value(by_name[name], "required"), "false") for name in proposal.relaxed]
    if proposal.added:
        edits.append(_append(text, properties, [_flow(to_property(column)) for column in proposal.added]))
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _value(mapping: yaml.MappingNode, key: str) -> Any:
    return next(value for name, value in mapping.value if name.value == key)


def _replace(scalar: yaml.ScalarNode, text: str) -> Edit:
    quote = scalar.style if scalar.style in ("'", '"') else ""
    return Edit(scalar.start_mark.index, scalar.end_mark.index, f"{quote}{text}{quote}")


def _append(text: str, sequence: yaml.SequenceNode, items: Sequence[str]) -> Edit:
    """New items after the last one: on lines of their own, or within the brackets of a list in flow style."""
    end = _content_end(sequence.value[-1])
    if sequence.flow_style:
        return Edit(end, end, "".join(f", {item}" for item in items))
    line_end = text.find("\n", end)
    place = len(text) if line_end < 0 else line_end
    indent = " " * sequence.start_mark.column
    return Edit(place, place, "".join(f"\n{indent}- {item}" for item in items))


def _content_end(node: Any) -> int:
    """Where the content of a node ends. The mark of a node in block style lies behind the comments that follow it."""
    if isinstance(node, yaml.ScalarNode) or node.flow_style or not node.value:
        is_block_text = isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")
        return node.end_mark.index - 1 if is_block_text else node.end_mark.index
    last = node.value[-1]
    return _content_end(last[1] if isinstance(node, yaml.MappingNode) else last)


def _flow(value: dict[str, Any]) -> str:
    """A value on one line, as YAML."""
    return yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10_000, allow_unicode=True).strip()

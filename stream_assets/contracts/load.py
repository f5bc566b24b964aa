"""Reads a folder of contracts into the model. A bad file is reported and set aside; the good ones still load."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import yaml

from stream_assets.contracts.columns import SPARK_TYPES
from stream_assets.contracts.durations import parse_duration, sla_duration
from stream_assets.contracts.model import CHANGES, Bounds, CheckSetting, Column, Contract, Expression, Server
from stream_assets.contracts.servers import SERVER_KINDS
from stream_assets.contracts.validate import validate
from stream_assets.errors import ContractError

SUFFIX = ".odcs.yaml"
MAX_NODES = 1_000_000
UNLIMITED_DAYS = 36_500
"""A change of an entity may be as old as it likes, unless its contract says otherwise."""


@dataclass(frozen=True)
class ContractSet(Mapping[str, Contract]):
    """The contracts of one folder by name, and the errors of those that were refused."""

    contracts: tuple[Contract, ...]
    broken: tuple[ContractError, ...] = ()

    def __getitem__(self, name: str) -> Contract:
        for contract in self.contracts:
            if contract.name == name:
                return contract
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(contract.name for contract in self.contracts)

    def __len__(self) -> int:
        return len(self.contracts)


def load_contracts(folder: Path) -> ContractSet:
    """Load every contract of a folder, the broken ones as errors.

    Two contracts of one name are both refused: neither can be known to be the right one.
    """
    loaded: list[Contract] = []
    broken: list[ContractError] = []
    for file in sorted(folder.glob(f"*{SUFFIX}")):
        try:
            loaded.append(load_contract(file))
        except ContractError as error:
            broken.append(error)
    counts = Counter(contract.name for contract in loaded)
    for contract in [c for c in loaded if counts[c.name] > 1]:
        loaded.remove(contract)
        broken.append(
            ContractError(
                contract.file.name,
                "name",
                f"{contract.name!r} is declared by {counts[contract.name]} files",
                "Keep one.",
            )
        )
    doubtful = {error.file.removesuffix(SUFFIX) for error in broken}
    lost = [error for contract in loaded if (error := _lost_reference(contract, loaded, doubtful))]
    sound = [contract for contract in loaded if contract.file.name not in {error.file for error in lost}]
    return ContractSet(tuple(sound), (*broken, *lost))


def _lost_reference(
    contract: Contract, contracts: Sequence[Contract], doubtful: Collection[str]
) -> ContractError | None:
    """The first relationship that cannot be checked. What points at a contract that is itself refused gets the benefit of doubt."""
    known = {other.name: {column.name: column for column in other.silver} for other in contracts}
    for position, column in enumerate(contract.columns):
        field = f"schema[0].properties[{position}] ({column.name}).relationships"
        dataset, name = column.references or ("", "")
        if not dataset or dataset in doubtful:
            continue
        if dataset not in known:
            return ContractError(contract.file.name, field, f"there is no dataset {dataset!r}", "Correct the name.")
        target = known[dataset].get(name)
        if target is None:
            problem = f"Silver of {dataset} has no column {name!r}"
            return ContractError(contract.file.name, field, problem, "Point at a column that is kept.")
        if (target.silver_type, _protection(target)) != (column.silver_type, _protection(column)) or not column.is_kept:
            problem = f"{dataset}.{name} is {_form(target)}, this is {_form(column)}"
            return ContractError(contract.file.name, field, problem, "Only columns of one form can be compared.")
    return None


def _protection(column: Column) -> str | None:
    return column.pii if column.pii != "keep" else None


def _form(column: Column) -> str:
    return f"{column.type}, {_protection(column)}" if _protection(column) else column.type


def load_contract(file: Path) -> Contract:
    """Load and validate one contract file."""
    document = _read_yaml(file)
    validate(file.name, document)
    return _to_contract(file, document)


class _StrictLoader(yaml.SafeLoader):
    """YAML without tags and without repeated keys, which PyYAML would let the last one win. Dates stay text."""

    yaml_implicit_resolvers = {  # noqa: RUF012 declared so by PyYAML
        first: [(tag, pattern) for tag, pattern in known if tag != "tag:yaml.org,2002:timestamp"]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        repeated = [key for key, count in Counter(map(str, keys)).items() if count > 1]
        if repeated:
            raise yaml.constructor.ConstructorError(None, None, f"key {repeated[0]!r} appears twice", node.start_mark)
        return super().construct_mapping(node, deep)


def _read_yaml(file: Path) -> dict[str, Any]:
    if file.is_symlink() and not file.resolve().is_relative_to(file.parent.resolve()):
        raise ContractError(
            file.name, "file", "is a link that leaves the contracts folder", "Put the file itself there."
        )
    try:
        document = yaml.load(file.read_text(encoding="utf-8"), Loader=_StrictLoader)  # noqa: S506 strict subclass of SafeLoader
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        where = getattr(error, "problem_mark", None)
        place = f"line {where.line + 1}" if where else "file"
        reason = getattr(error, "problem", None) or "is not UTF-8 YAML"
        raise ContractError(file.name, place, f"cannot be read as YAML: {reason}", "Correct the YAML.") from error
    if not isinstance(document, dict):
        raise ContractError(file.name, "file", "holds no mapping", "Start from an existing contract.")
    if not _is_bounded(document):
        raise ContractError(
            file.name, "file", f"expands to more than {MAX_NODES:,} values", "Write it without aliases."
        )
    return document


def _is_bounded(document: dict[str, Any]) -> bool:
    """Whether a document stays small once its aliases are followed: ten lines of YAML can stand for a billion values."""
    waiting: list[Any] = [document]
    for _ in range(MAX_NODES):
        if not waiting:
            return True
        value = waiting.pop()
        children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        waiting.extend(children)
    return False


def _to_contract(file: Path, document: dict[str, Any]) -> Contract:
    table = document["schema"][0]
    custom = _custom(document)
    sla = {item["property"]: item for item in document["slaProperties"]}
    keyed = sorted(
        (p for p in table["properties"] if p.get("primaryKey")), key=lambda p: p.get("primaryKeyPosition", 1)
    )
    return Contract(
        name=document["name"],
        version=document["version"],
        domain=document["domain"],
        purpose=document["description"]["purpose"],
        grain=table["dataGranularityDescription"],
        team=document["team"]["name"],
        owner=next(m["username"] for m in document["team"]["members"] if m.get("role") == "owner"),
        kind=custom["datasetKind"],
        columns=tuple(_to_column(p) for p in table["properties"]),
        key=tuple(p["name"] for p in keyed),
        event_time=custom.get("eventTime"),
        order_by=custom.get("orderBy"),
        envelope=bool(custom.get("envelope", False)),
        max_lateness=int(custom.get("maxLateness", UNLIMITED_DAYS)),
        tier=int(custom["slaTier"]),
        freshness=sla_duration(sla["freshness"]) or timedelta(),
        cadence=parse_duration(custom["cadence"]) or timedelta(),
        retention=sla_duration(sla["retention"]) or timedelta(),
        history_start=date.fromisoformat(custom["replay"]["historyStart"]),
        servers=tuple(_to_server(server) for server in document["servers"]),
        expressions=tuple(_to_expression(q) for q in table.get("quality", []) if "expression" in _implementation(q)),
        row_counts=tuple(_to_bounds(q) for q in table.get("quality", []) if q.get("metric") == "rowCount"),
        check_settings=tuple(CheckSetting(**item) for item in custom.get("checks", ())),
        drift=custom.get("schemaDrift", "evolve"),
        null_values=tuple(map(str, custom.get("nullValues", ()))),
        min_keep=float(custom.get("minKeep", 0.8)),
        file=file,
        fingerprint=hashlib.sha256(json.dumps(document, sort_keys=True, default=str).encode()).hexdigest()[:16],
    )


def _to_server(server: dict[str, Any]) -> Server:
    kind, options = SERVER_KINDS[server["type"]], _custom(server)
    usual = CHANGES if kind == "postgres" else "json"
    return Server(
        name=server["server"],
        kind=kind,
        format=server.get("format", usual),
        path=server.get("path", ""),
        database=server.get("database", ""),
        schema=server.get("schema", ""),
        options=options,
    )


def _to_column(prop: dict[str, Any]) -> Column:
    options = dict(prop.get("logicalTypeOptions", {}))
    is_temporal = prop["logicalType"] in ("date", "timestamp")
    physical = str(prop.get("physicalType", "")).lower().replace(" ", "")
    allowed = [
        v for q in prop.get("quality", []) if q.get("metric") == "invalidValues" for v in q["arguments"]["validValues"]
    ]
    target = next((r["to"].split(".") for r in prop.get("relationships", [])), None)
    return Column(
        name=prop["name"],
        type=physical if physical.startswith("decimal(") else SPARK_TYPES[prop["logicalType"]],
        source=prop.get("physicalName", prop["name"]),
        description=prop.get("description", ""),
        required=bool(prop.get("required") or prop.get("primaryKey")),
        pii=(_custom(prop).get("pii") or {}).get("strategy"),
        timestamp_format=options.pop("format", None) if is_temporal else None,
        options=options,
        allowed=tuple(map(str, allowed)),
        references=(target[0], target[1]) if target else None,
        profile=_custom(prop).get("profile"),
        unique=bool(prop.get("unique")),
    )


def _to_expression(item: dict[str, Any]) -> Expression:
    return Expression(
        id=item["id"],
        sql=_implementation(item)["expression"],
        severity=item["severity"],
        dimension=item["dimension"],
        description=item.get("description", ""),
    )


def _to_bounds(item: dict[str, Any]) -> Bounds:
    low, high = item.get("mustBeBetween", (None, None))
    exact = item.get("mustBe")
    minimums = [exact, low, item.get("mustBeGreaterOrEqualTo"), _next(item.get("mustBeGreaterThan"), 1)]
    maximums = [exact, high, item.get("mustBeLessOrEqualTo"), _next(item.get("mustBeLessThan"), -1)]
    return Bounds(
        item["id"],
        next((n for n in minimums if n is not None), None),
        next((n for n in maximums if n is not None), None),
    )


def _next(bound: float | None, step: int) -> float | None:
    """The nearest whole number inside an open bound."""
    return None if bound is None else bound + step


def _implementation(item: dict[str, Any]) -> dict[str, Any]:
    implementation = item.get("implementation", {})
    return implementation if isinstance(implementation, dict) else {}


def _custom(element: dict[str, Any]) -> dict[str, Any]:
    return {item["property"]: item["value"] for item in element.get("customProperties", [])}

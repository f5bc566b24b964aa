"""Figures for the quality of everything, from the latest result of each check.

A check belongs to a family and to a dimension by its name; `docs/operations.md` has the mapping and the formula for people.
Where results come from is `ops/instance.py`; how they are shown is `report.py`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

TARGET = 0.95
"""Every score should be above this."""
GATE_WEIGHT = 3
"""A gate says that data cannot be accounted for; any other check that something looks odd."""
FAMILIES = {"completeness": 3, "validity": 3, "uniqueness": 2, "freshness": 2, "distribution": 1}
"""What a family weighs within its dataset, however many checks it has: an anomaly is a suspicion, a lost record is a fact."""
TIER_WEIGHTS = {1: 3, 2: 2, 3: 1}
"""What a dataset weighs in the whole, by its tier. Tables without a contract, such as those of Gold, weigh as the last."""
DIMENSIONS = {
    "accuracy": "Volumes, categories and means are what the weeks before let expect: the nearest to truth that data alone shows.",
    "completeness": "Every record arrived and is accounted for; required fields are there.",
    "consistency": "Fields agree with each other, tables with those they refer to, records with the columns of the contract.",
    "timeliness": "The newest event is within the freshness target.",
    "validity": "Values have the type, range, format and vocabulary the contract promises; files can be read.",
    "uniqueness": "Keys are unique; sources do not repeat themselves more than they used to.",
}
_DBT_FAMILIES = {"unique_": "uniqueness", "is_key_": "uniqueness", "not_null_": "completeness"}
_DIMENSION_OF_FAMILY = {"freshness": "timeliness", "distribution": "accuracy"}


@dataclass(frozen=True)
class CheckResult:
    """The latest result of one check."""

    asset: str
    name: str
    passed: bool
    is_gate: bool
    expected: str = ""
    found: str = ""
    evaluated_at: datetime | None = None

    @property
    def dataset(self) -> str:
        """The dataset it is about: Bronze and Silver of one are judged together, a Gold table on its own."""
        layer, _, name = self.asset.partition("/")
        return self.asset if layer == "gold" or not name else name

    @property
    def weight(self) -> int:
        """How much it counts among the checks of its family."""
        return GATE_WEIGHT if self.is_gate else 1


def family_of(name: str) -> str:
    """The family of a check or rule, by its name. dbt's names begin with the test; those we do not know are about validity."""
    first = name.partition("__")[0]
    dbt = next((family for start, family in _DBT_FAMILIES.items() if name.startswith(start)), "validity")
    return first if first in FAMILIES else dbt


def dimension_of(name: str) -> str:
    """The dimension of a check or rule, by its name."""
    if name.startswith(("consistency__", "validity__schema__", "relationships_")):
        return "consistency"
    return _DIMENSION_OF_FAMILY.get(family_of(name), family_of(name))


def quality_score(results: Iterable[CheckResult], tiers: Mapping[str, int] | None = None) -> float | None:
    """One figure from 0 to 1: the mean of the datasets' scores by tier. None before any check has run."""
    scores = {dataset: dataset_score(checks) for dataset, checks in _group(results, _dataset).items()}
    return _mean_of_datasets(scores, tiers or {})


def dataset_score(checks: Iterable[CheckResult]) -> float | None:
    """The mean of a dataset's family scores, by the weight of each family."""
    return _mean((score, FAMILIES[family]) for family, score in family_scores(checks).items())


def family_scores(checks: Iterable[CheckResult]) -> dict[str, float | None]:
    """Per family that has results, in the order of `FAMILIES`: the share of its checks that passed, by weight."""
    grouped = _group(checks, lambda check: family_of(check.name))
    return {family: share_passed(grouped[family]) for family in FAMILIES if family in grouped}


def scores_by(
    results: Iterable[CheckResult], part_of: Callable[[str], str], tiers: Mapping[str, int]
) -> dict[str, float | None]:
    """The score of each part of the whole (a family, a dimension): the mean of what the datasets reach in it, by tier."""
    parts = _group(results, lambda check: part_of(check.name))
    return {part: _mean_of_datasets(_passed_by_dataset(checks), tiers) for part, checks in parts.items()}


def share_passed(checks: Iterable[CheckResult]) -> float | None:
    """Weight of the checks that passed over the weight of all."""
    return _mean((float(check.passed), check.weight) for check in checks)


def dataset_weight(dataset: str, tiers: Mapping[str, int]) -> int:
    """How much a dataset counts in the whole."""
    return TIER_WEIGHTS[tiers.get(dataset, max(TIER_WEIGHTS))]


def _passed_by_dataset(checks: Iterable[CheckResult]) -> dict[str, float | None]:
    return {dataset: share_passed(group) for dataset, group in _group(checks, _dataset).items()}


def _mean_of_datasets(scores: Mapping[str, float | None], tiers: Mapping[str, int]) -> float | None:
    return _mean((score, dataset_weight(dataset, tiers)) for dataset, score in scores.items())


def _mean(weighed: Iterable[tuple[float | None, int]]) -> float | None:
    known = [(value, weight) for value, weight in weighed if value is not None]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _dataset(check: CheckResult) -> str:
    return check.dataset


def _group(checks: Iterable[CheckResult], by: Callable[[CheckResult], str]) -> dict[str, list[CheckResult]]:
    groups: defaultdict[str, list[CheckResult]] = defaultdict(list)
    for check in checks:
        groups[by(check)].append(check)
    return dict(groups)

"""A view is declared, and a bad declaration is refused with its file, its field and a remedy."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_assets.contracts.load import load_contracts
from stream_assets.errors import ViewError
from stream_assets.settings import Settings
from stream_assets.streaming.load import load_view, load_views

SETTINGS = Settings.from_env({})
CONTRACTS = load_contracts(SETTINGS.contracts)
GOOD: dict[str, Any] = yaml.safe_load((SETTINGS.views / "revenue_by_store.yaml").read_text())


def declared(folder: Path, document: dict[str, Any]) -> Path:
    file = folder / "view.yaml"
    file.write_text(yaml.safe_dump(document))
    return file


def test_the_sample_views_are_sound() -> None:
    found = load_views(SETTINGS.views, CONTRACTS)
    assert not found.broken
    assert {view.kind for view in found.views} == {"transform", "tumbling", "sliding", "session", "join", "pattern"}
    assert found.datasets == ("orders", "payments", "web_events")


def test_revenue_is_by_the_hour_every_quarter_and_waits_ten_minutes() -> None:
    view = load_view(SETTINGS.views / "revenue_by_store.yaml", CONTRACTS)
    assert (view.window.size.seconds, view.window.slide.seconds, view.watermark.seconds) == (3600, 900, 600)
    assert (view.group_by, set(view.measures)) == (("store_id",), {"total_revenue", "order_count"})
    assert view.window.overlap == 4


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "rolling"}, "kind"),
        ({"source": "nothing"}, "source"),
        ({"source": "customers"}, "source"),
        ({"name": "Revenue"}, "name"),
        ({"name": "orders_events"}, "name"),
        ({"watermark": "soon"}, "watermark"),
        ({"window": {"size": "1h"}}, "window"),
        ({"window": {"size": "1h", "slide": "7m"}}, "window.slide"),
        ({"measures": {"n": "count(*); drop table x"}}, "measures.n"),
        ({"measures": {"n": "reflect('java.lang.System', 'exit', 1)"}}, "measures.n"),
        ({"measures": {"N!": "count(*)"}}, "measures.N!"),
        ({"group_by": "store_id"}, "group_by"),
        ({"gruop_by": ["store_id"]}, "gruop_by"),
        ({"select": {"a": "b"}}, "select"),
        ({"lookup": {"table": "silver.customers"}}, "lookup.by"),
        ({"lookup": {"table": "x; y", "by": ["a"], "columns": ["b"]}}, "lookup.table"),
    ],
)
def test_a_bad_field_is_named(tmp_path: Path, change: dict[str, Any], field: str) -> None:
    with pytest.raises(ViewError) as refused:
        load_view(declared(tmp_path, GOOD | change), CONTRACTS)
    assert refused.value.field == field
    assert refused.value.remedy


@pytest.mark.parametrize("field", ["name", "kind", "source", "watermark", "window", "group_by", "measures"])
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    with pytest.raises(ViewError) as refused:
        load_view(declared(tmp_path, {name: value for name, value in GOOD.items() if name != field}), CONTRACTS)
    assert refused.value.field == field


def test_two_views_of_one_name_are_not_both_taken(tmp_path: Path) -> None:
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(yaml.safe_dump(GOOD))
    found = load_views(tmp_path, CONTRACTS)
    assert (len(found.views), [error.field for error in found.broken]) == (1, ["name"])


@pytest.mark.parametrize("text", ["- a list", "name: [unclosed", "!!python/object:os.system {}"])
def test_what_is_no_view_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "view.yaml"
    file.write_text(text)
    with pytest.raises(ViewError):
        load_view(file, CONTRACTS)

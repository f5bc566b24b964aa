"""What a look at a table tells, compared with what was known."""

import json
from datetime import UTC, datetime

from stream_assets.sources.tables import Look, TableRow, changes_of

AT = datetime(2025, 3, 2, 12, tzinfo=UTC)
KNOWN_ROW = TableRow('["1"]', '{"id":1,"amount":"1.10"}', None)
OTHER_ROW = TableRow('["2"]', '{"id":2,"amount":"12345678901234567890.12"}', None)


def told(known: dict[str, str], *rows: TableRow, is_whole: bool) -> list[tuple[str, dict]]:
    look = Look(77, AT, rows)
    return [(key, json.loads(event)) for key, event in changes_of(look, known, ["id"], is_whole=is_whole)]


def test_a_row_that_did_not_change_is_not_told_again() -> None:
    """Only new and changed rows are, each once, with their values as the database wrote them."""
    ((key, event),) = told({'["1"]': KNOWN_ROW.digest}, KNOWN_ROW, OTHER_ROW, is_whole=True)
    assert (key, event["op"], event["after"]) == ('["2"]', "u", {"id": 2, "amount": "12345678901234567890.12"})
    assert event["source"]["lsn"] == 77


def test_what_is_gone_from_the_whole_is_deleted() -> None:
    """By its key alone: nobody knows the rest."""
    ((_, event),) = told({'["1"]': KNOWN_ROW.digest, '["2"]': "x"}, KNOWN_ROW, is_whole=True)
    assert (event["op"], event["before"], event["after"]) == ("d", {"id": "2"}, None)


def test_what_a_part_does_not_show_may_still_be_there() -> None:
    """Rows that did not change lately are not among those read."""
    assert told({'["1"]': KNOWN_ROW.digest, '["2"]': "x"}, KNOWN_ROW, is_whole=False) == []

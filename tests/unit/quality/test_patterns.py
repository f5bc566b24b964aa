"""Which patterns may take the stack: those that repeat a group, unless it is possessive."""

import pytest

from stream_assets.quality.patterns import repeats_group


@pytest.mark.parametrize(
    "pattern", ["^(a|b)+$", "(ab)*c", "(?:a-){2,}", "([a-z]+(-[a-z]+)*)++", "^(a|b)+?$", "(?>(a|b)*)", "(?x)(a|b) *"]
)
def test_a_repeated_group_is_seen(pattern: str) -> None:
    assert repeats_group(pattern)


@pytest.mark.parametrize(
    "pattern", ["^[a-z]+$", r"^\d{4}-\d{2}$", "^(a|b)$", "^(a|b)?c*$", "^(/[a-z]+)++$", "(a|b){2,}+"]
)
def test_what_repeats_no_group_is_matched_at_any_length(pattern: str) -> None:
    """Classes are repeated in a loop, possessive groups as well."""
    assert not repeats_group(pattern)

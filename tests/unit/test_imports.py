"""The house rules as a test: imports go one way, rooms on one floor do not know each other, Dagster stays in the shell."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import stream_assets

PACKAGE = Path(stream_assets.__file__).parent

# From the ground up. A room imports itself and the floors below it.
FLOORS = (
    {"errors"},
    {"contracts"},
    {"settings"},
    {"secrets"},
    {"engine", "keys"},
    {"resources", "services"},
    {"quality", "sla", "lineage", "sources"},
    {"bronze", "silver", "gold", "streaming", "serve"},
    {"ops"},
    {"build"},
    {"commands"},
    {"cli"},
    {"standby"},
    {"definitions"},
)
# The sample writes files as any producer would: it shares no code with what reads them.
OUTBUILDING = "sample"
SHELL = {
    "assets", "automation", "broken", "build", "checks", "choose", "definitions", "event_log", "executor", "feeds", "instance", "jobs", "keys", "policies", "project", "resources",
    "run", "schedules", "sensors", "translator",
}  # fmt: skip
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)


def imports(file: Path) -> Iterator[str]:
    """Every module a file imports, inside functions too."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(file)} has a relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str | None:
    """The room of a module of ours; None for others and for the package itself."""
    first, *rest = module.split(".")
    return rest[0] if first == "stream_assets" and rest and rest[0] != "__init__" else None


def floor_of(room: str) -> int:
    return next(floor for floor, rooms in enumerate(FLOORS) if room in rooms)


def test_every_room_has_its_floor() -> None:
    """A new room is a decision: it is placed here before anything imports it."""
    rooms = {room for file in MODULES if (room := room_of(name_of(file)))}
    assert rooms - set().union(*FLOORS) == {OUTBUILDING}


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_imports_go_down(file: Path) -> None:
    """`definitions → cli → build → ops → bronze, silver, gold → quality, sources → … → contracts`, never back, never sideways."""
    here = room_of(name_of(file))
    others = {(room, module) for module in imports(file) if (room := room_of(module)) and room != here}
    if here == OUTBUILDING:
        assert not others
    elif here:
        wrong = [m for room, m in others if room != OUTBUILDING and floor_of(room) >= floor_of(here)]
        assert not wrong, f"{name_of(file)} reaches up or sideways to {wrong}"
        assert here in ("cli", "commands") or OUTBUILDING not in {room for room, _ in others}


@pytest.mark.parametrize("file", MODULES, ids=name_of)
def test_dagster_stays_in_the_shell(file: Path) -> None:
    """Everything else is plain functions, testable without an orchestrator. Only two know Dagster's private modules."""
    found = {module for module in imports(file) if module.split(".")[0].startswith("dagster")}
    assert not found or file.stem in SHELL
    assert file.stem in ("event_log", "executor") or not [module for module in found if "._" in module]


@pytest.mark.parametrize("file", sorted((PACKAGE / "contracts").rglob("*.py")), ids=name_of)
def test_the_law_knows_no_engine(file: Path) -> None:
    """A contract can be read, checked and shown where neither Spark nor Dagster is."""
    foreign = ("pyspark", "dagster", "pyarrow", "pandas", "delta")
    assert not [module for module in imports(file) if module.split(".")[0] in foreign]

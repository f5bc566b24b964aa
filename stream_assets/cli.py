"""`stream …`: the command line. One thin function per verb; the work is done in the rooms."""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from stream_assets.commands import backfill, cdc, services, streams, topics
from stream_assets.commands.cost import cost
from stream_assets.commands.doctor import doctor
from stream_assets.commands.erase import erase
from stream_assets.commands.maintain import maintain
from stream_assets.commands.quarantine import app as quarantine_app
from stream_assets.commands.quarantine import replay
from stream_assets.commands.rollback import rollback
from stream_assets.commands.why import why
from stream_assets.contracts.load import ContractSet, load_contracts
from stream_assets.contracts.model import Contract
from stream_assets.errors import InterruptedRunError, StreamError
from stream_assets.settings import FIELDS, SECRETS, Settings

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="A lakehouse you declare rather than program.",
    pretty_exceptions_enable=False,
)
contracts_app = typer.Typer(no_args_is_help=True, help="Look at contracts and check them.")
engine_app = typer.Typer(no_args_is_help=True, help="The embedded Spark server.")
dbt_app = typer.Typer(no_args_is_help=True, help="The dbt project that makes Gold.")
alerts_app = typer.Typer(no_args_is_help=True, help="What is wrong now, and whether people hear of it.")
app.add_typer(contracts_app, name="contracts")
app.add_typer(quarantine_app, name="quarantine")
app.command("rollback")(rollback)
app.command("replay")(replay)
app.command("why")(why)
app.command("erase")(erase)
app.add_typer(engine_app, name="engine")
app.add_typer(dbt_app, name="dbt")
app.add_typer(alerts_app, name="alerts")
app.add_typer(services.app, name="services")
app.add_typer(backfill.app, name="backfill")
app.add_typer(cdc.app, name="cdc")
app.add_typer(streams.app, name="streams")
app.add_typer(topics.app, name="topics")
app.command()(maintain)
app.command()(doctor)
app.command()(cost)
console = Console(highlight=False, file=sys.stdout)


def main() -> None:
    """Entry point: errors raised on purpose are shown without a traceback."""
    try:
        app(prog_name="stream")
    except StreamError as error:
        Console(stderr=True, highlight=False).print(f"[bold red]error[/] {error}", soft_wrap=True)
        sys.exit(error.exit_code)


def _day(text: str | None) -> date | None:
    try:
        return date.fromisoformat(text) if text else None
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a day; use YYYY-MM-DD") from None


@app.command()
def run(
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD. Default: first delivery.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day. Default: last delivery.")] = None,
    select: Annotated[
        str | None,
        typer.Option(help="A dataset with all that is made of it, or a selection of Dagster's such as 'group:bronze'."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Make the days anew although nothing changed: after a file was lost.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the execution result as JSON instead of tables.")
    ] = False,
) -> None:
    """Materialize a range of days, show progress, and end with a summary. Exits 1 if a step or a gate failed, 130 if it was interrupted."""
    from stream_assets.engine.server import start_meanwhile
    from stream_assets.ops.show import Progress, show_result

    settings = Settings.from_env()
    contracts = load_contracts(settings.contracts)
    start, end = _range(settings, contracts, _day(first), _day(last))
    out = Console(highlight=False, file=sys.stderr) if as_json else console
    start_meanwhile(settings)
    with Progress(out) as progress:
        progress.note(f"Days {start} to {end}, {len(contracts)} datasets, lake {settings.lake}")
        from stream_assets.build import build_defs
        from stream_assets.ops.run import run_range

        defs = build_defs(settings)
        result = run_range(settings, defs, start, end, select=select, report=progress.report, again=again)
    result.broken_contracts = [str(error) for error in contracts.broken]
    if as_json:
        print(result.to_json())
    else:
        show_result(console, settings, contracts, result)
    if result.status == "canceled":
        sys.exit(InterruptedRunError.exit_code)
    sys.exit(0 if result.status == "success" and not contracts.broken else 1)


def _range(settings: Settings, contracts: ContractSet, first: date | None, last: date | None) -> tuple[date, date]:
    from stream_assets.sources.files import delivery_days

    by_files = [c for c in contracts.values() if c.server(settings.server).kind == "local"]
    live = {datetime.now(UTC).date()} if len(by_files) < len(contracts) else set[date]()
    days = sorted(live | {day for contract in by_files for day in delivery_days(settings, contract)})
    if not (first and last) and not days:
        raise StreamError(
            f"The landing zone {settings.landing} has no deliveries. Put some there, make some with `stream sample`, or give --from and --to."
        )
    start, end = first or days[0], last or days[-1]
    if start > end:
        raise StreamError(f"--from {start} is after --to {end}.")
    return start, end


@app.command("status")
def show_how_things_stand(
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as JSON.")] = False,
) -> None:
    """Show the service level of each dataset and whether the targets of the whole are met. Starts no engine."""
    from stream_assets.build import build_defs
    from stream_assets.gold.project import read_models
    from stream_assets.ops.instance import read_instance
    from stream_assets.ops.prepare import prepare_home
    from stream_assets.ops.show_status import show_status, status_document
    from stream_assets.ops.status import gather_status
    from stream_assets.sla.budget import month_of

    settings, now = Settings.from_env(), datetime.now(UTC)
    prepare_home(settings)
    facts = read_instance(settings, build_defs(settings), since=month_of(now.date()).start)
    contracts = load_contracts(settings.contracts).values()
    found = gather_status(settings, contracts, read_models(settings, contracts), facts, now)
    print(json.dumps(status_document(found), indent=2)) if as_json else show_status(console, found)


@app.command("report")
def report_quality(
    days: Annotated[int, typer.Option(min=1, max=400, help="How many days to cover, up to the newest.")] = 28,
    out: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write there. Default: $STREAM_HOME/reports/quality.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="JSON instead of a page; printed unless --out is given.")
    ] = False,
) -> None:
    """Make the quality report: scores, failed checks, anomalies, trends, quarantine, service levels. Starts no engine."""
    from stream_assets.build import build_defs
    from stream_assets.ops.instance import read_instance
    from stream_assets.ops.prepare import prepare_home
    from stream_assets.ops.report import gather_report, store_report, to_json
    from stream_assets.quality.page import render_page

    settings, now = Settings.from_env(), datetime.now(UTC)
    prepare_home(settings)
    facts = read_instance(settings, build_defs(settings), since=now)
    made = gather_report(settings, load_contracts(settings.contracts).values(), facts.checks, now, days=days)
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(to_json(made) if as_json else render_page(made), encoding="utf-8")
    if as_json and not out:
        print(to_json(made))
    else:
        console.print(str(out or store_report(settings, made)), soft_wrap=True)


@app.command()
def sample(
    days: Annotated[int | None, typer.Option(min=1, help="Days of deliveries. Default: 14, or 1 with --live.")] = None,
    scale: Annotated[float, typer.Option(min=0.001, help="1.0 is about 2,000 orders a day.")] = 1.0,
    seed: Annotated[int, typer.Option(help="Same seed, same bytes.")] = 7,
    end: Annotated[str | None, typer.Option(help="Last delivery day. Default: yesterday.")] = None,
    faults: Annotated[bool, typer.Option(help="Inject known faults, listed in manifest.json.")] = True,
    if_empty: Annotated[
        bool, typer.Option("--if-empty", help="Do nothing when the landing zone already has deliveries.")
    ] = False,
    live: Annotated[
        bool, typer.Option("--live", help="Publish the events to their Kafka topics instead; the last one happens now.")
    ] = False,
    rate: Annotated[float | None, typer.Option(min=0.1, help="With --live: at most so many messages a second.")] = None,
    seconds: Annotated[float | None, typer.Option(min=0.1, help="With --live: for at most so long.")] = None,
) -> None:
    """Write deliveries of an invented retailer, realistic and imperfect in known ways."""
    from stream_assets.sample import write_sample

    if live:
        from stream_assets.commands.live import publish_sample

        settings = Settings.from_env()
        publish_sample(settings, days=days or 1, scale=scale, seed=seed, faults=faults, rate=rate, seconds=seconds)
        return

    days = days or 14
    landing = Path(Settings.from_env().landing)
    if if_empty and landing.exists() and any(landing.iterdir()):
        console.print(f"The landing zone {landing} already has data: left as it is.")
        return
    last = _day(end) or (datetime.now(UTC) - timedelta(days=1)).date()
    manifest = write_sample(landing, days=days, end=last, scale=scale, seed=seed, faults=faults)
    console.print(
        f"Wrote {days} days of deliveries up to {last} to {landing}, with {len(manifest.faults):,} known faults."
    )


@app.command()
def prepare() -> None:
    """Make this machine ready: JVM libraries, the classes of the engine, folders, the dbt manifest. Needs the network once."""
    from stream_assets.engine.jars import resolve_jars
    from stream_assets.engine.java import find_java
    from stream_assets.engine.rehearsal import keep_classes
    from stream_assets.gold.project import prepare_manifest
    from stream_assets.ops.prepare import prepare_home

    settings = Settings.from_env()
    if not settings.spark_remote:
        find_java()
        resolve_jars(settings.jars, "spark", report=console.print)
        keep_classes(settings, report=console.print)
    prepare_home(settings)
    prepare_manifest(settings, list(load_contracts(settings.contracts).values()))
    console.print("Ready.")


@app.command("settings")
def show_settings() -> None:
    """Show every setting, its default and its meaning."""
    table = Table("variable", "default", "meaning", "now")
    for name, (default, meaning) in FIELDS.items():
        now = "(set)" if name in SECRETS and os.environ.get(name) else os.environ.get(name, "")
        table.add_row(name, default, meaning, now)
    console.print(table)


@contracts_app.command("list")
def list_contracts() -> None:
    """Show the contracts as a table."""
    from stream_assets.ops.show import show_contracts

    show_contracts(console, load_contracts(Settings.from_env().contracts))


@contracts_app.command()
def lint(
    folder: Annotated[Path | None, typer.Argument(help="Folder of contracts. Default: STREAM_CONTRACTS.")] = None,
) -> None:
    """Check every contract and say what is wrong with each. Exits 1 if any is refused."""
    place = folder or Settings.from_env().contracts
    contracts = load_contracts(place)
    for error in contracts.broken:
        console.print(
            f"[bold red]refused[/] {error.file}\n  field   {error.field}\n  problem {error.problem}\n  remedy  {error.remedy}",
            soft_wrap=True,
        )
    if not contracts and not contracts.broken:
        raise StreamError(f"{place} holds no *.odcs.yaml file.")
    console.print(f"{len(contracts)} sound, {len(contracts.broken)} refused in {place}")
    sys.exit(1 if contracts.broken else 0)


@contracts_app.command()
def diff(
    old: Annotated[str | None, typer.Argument(help="Before: a file, a folder or a git commit.")] = None,
    new: Annotated[str | None, typer.Argument(help="After. Default: STREAM_CONTRACTS.")] = None,
    against: Annotated[
        str | None, typer.Option(help="Compare the folder with itself at this git commit, such as origin/main.")
    ] = None,
    allow_removed: Annotated[list[str] | None, typer.Option(help="A dataset that is removed on purpose.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the changes as JSON.")] = False,
) -> None:
    """Say what changed and whom it hurts. Exits 1 if a breaking change comes without a major version."""
    from stream_assets.contracts.revisions import load_commit, load_place
    from stream_assets.contracts.versions import diff_datasets
    from stream_assets.ops.show_changes import changes_document, show_changes

    if not (old or against) or (against and new):
        raise typer.BadParameter("give OLD and NEW, or --against and the folder if it is not STREAM_CONTRACTS")
    contracts = Settings.from_env().contracts
    place = (old if against else new) or str(contracts)
    after = load_place(place, beside=contracts)
    beside = Path(place) if Path(place).exists() else contracts
    before = load_commit(against, beside) if against else load_place(str(old), beside=beside)
    for error in (*before.broken, *after.broken):
        Console(stderr=True, highlight=False).print(f"[bold red]refused[/] {error}", soft_wrap=True)
    diffs = diff_datasets(before, after, allow_removed=allow_removed or ())
    document = changes_document(diffs)
    print(json.dumps(document, indent=2)) if as_json else show_changes(console, diffs)
    sys.exit(0 if document["passed"] and not after.broken else 1)


@contracts_app.command("propose")
def propose_change(
    dataset: Annotated[str, typer.Argument(help="The dataset whose records drift.")],
    days: Annotated[int, typer.Option(min=1, help="How many of the last days with records to look at.")] = 7,
    write: Annotated[bool, typer.Option("--write", help="Put the change into the contract's file.")] = False,
) -> None:
    """Propose the next version of a contract from the columns that its records lately gained or lost."""
    from stream_assets.contracts.edit import write_proposal
    from stream_assets.contracts.propose import find_drift, propose
    from stream_assets.engine.log import newest_entries, read_log
    from stream_assets.ops.show_changes import show_proposal

    settings = Settings.from_env()
    contract = _contract(settings, load_contracts(settings.contracts), dataset)
    entries = newest_entries(read_log(settings.table_path("silver", dataset)))
    proposal = propose(contract, find_drift(entries, days))
    show_proposal(console, proposal)
    if write and proposal.changes:
        write_proposal(proposal)
        console.print(
            f"Written to {contract.file}. Look at it, describe the new columns, and commit it.", soft_wrap=True
        )


def _contract(settings: Settings, contracts: ContractSet, dataset: str) -> Contract:
    if dataset not in contracts:
        raise StreamError(f"{settings.contracts} has no sound contract called {dataset}. See `stream contracts lint`.")
    return contracts[dataset]


@contracts_app.command("simulate")
def simulate_contract(
    file: Annotated[Path, typer.Argument(help="The proposed contract.", exists=True, dir_okay=False)],
    first: Annotated[str | None, typer.Option("--from", help="First day, YYYY-MM-DD. Default: the last 30.")] = None,
    last: Annotated[str | None, typer.Option("--to", help="Last day.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the effects as JSON.")] = False,
) -> None:
    """Tell what a proposed contract would have done to the records Bronze holds. Writes nothing."""
    from stream_assets.engine.session import open_session
    from stream_assets.ops.show_simulation import show_simulation, simulation_document
    from stream_assets.silver.simulate import prepare_trial, simulate

    settings = Settings.from_env()
    trial = prepare_trial(settings, file, first=_day(first), last=_day(last))
    with Console(stderr=True).status("Judging every record twice …"):
        found = simulate(open_session(settings), settings, trial)
    print(json.dumps(simulation_document(found), indent=2)) if as_json else show_simulation(console, found)


@contracts_app.command("suggest")
def suggest_rules(
    dataset: Annotated[str, typer.Argument(help="The dataset to look at.")],
    days: Annotated[int, typer.Option(min=1, help="How many of the last days with records to look at.")] = 60,
    as_json: Annotated[bool, typer.Option("--json", help="Print the suggestions as JSON.")] = False,
) -> None:
    """Suggest rules that the records in Silver have always kept, with the evidence for each."""
    from stream_assets.contracts.suggest import suggest
    from stream_assets.engine.session import open_session
    from stream_assets.ops.show_suggestions import show_suggestions, suggestions_document
    from stream_assets.quality.survey import recent_days, survey_silver

    settings = Settings.from_env()
    contracts = load_contracts(settings.contracts)
    contract = _contract(settings, contracts, dataset)
    recent = recent_days(settings, contract, days)
    with Console(stderr=True).status("Looking at Silver …"):
        survey = survey_silver(open_session(settings), contract, recent, others=contracts)
    found = suggest(contract, survey)
    if as_json:
        print(json.dumps(suggestions_document(contract, survey, found), indent=2))
    else:
        show_suggestions(console, contract, survey, found)


@engine_app.command()
def start() -> None:
    """Start the server, if it is not running, and say where it is."""
    from stream_assets.engine.server import connect

    with console.status("Starting Spark …"):
        connection = connect(Settings.from_env())
    console.print(connection.url)


@engine_app.command()
def stop() -> None:
    """Stop the server, if it runs."""
    from stream_assets.engine import server

    console.print("Stopped." if server.stop(Settings.from_env()) else "It was not running.")


@engine_app.command()
def status(as_json: Annotated[bool, typer.Option("--json")] = False) -> None:
    """Say whether the server runs, where, and where its log is. Exits 1 if it does not run."""
    from stream_assets.engine import server

    settings = Settings.from_env()
    state = server.running(settings)
    if as_json:
        print(
            json.dumps(
                {"running": bool(state), "port": state.port if state else None, "pid": state.pid if state else None}
            )
        )
    elif settings.spark_remote:
        console.print(f"SPARK_REMOTE is set: {settings.spark_remote} is used, no server of ours.")
    else:
        console.print(
            f"Running on 127.0.0.1:{state.port}, process {state.pid}, log {server.log_file(settings)}"
            if state
            else "Not running. It starts when needed."
        )
    sys.exit(0 if state or settings.spark_remote else 1)


@dbt_app.command()
def sync(
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit 1 if something would change.")] = False,
) -> None:
    """Write the dbt sources that follow from the contracts into the dbt project."""
    from stream_assets.gold.sources import sources_in_sync, sync_sources

    settings = Settings.from_env()
    contracts = list(load_contracts(settings.contracts).values())
    if check:
        current = sources_in_sync(settings, contracts)
        console.print(
            "The dbt sources are current." if current else "The dbt sources are stale: run `stream dbt sync`."
        )
        sys.exit(0 if current else 1)
    console.print("Updated." if sync_sources(settings, contracts) else "Already current.")


@alerts_app.command("test")
def test_alerts() -> None:
    """Send a test alert to every configured channel and say which took it. Exits 1 if one did not.

    Channels are configured by STREAM_ALERT_… variables: see `stream settings`.
    """
    from stream_assets.ops.alerts.deliver import try_channels
    from stream_assets.ops.alerts.show import show_trials

    problems = try_channels(Settings.from_env().alerts)
    show_trials(console, problems)
    sys.exit(1 if any(problems.values()) else 0)


@alerts_app.command("list")
def list_alerts(
    as_json: Annotated[bool, typer.Option("--json", help="Print incidents and channels as JSON.")] = False,
) -> None:
    """Show open incidents, the worst first, and channels that have alerts waiting.

    Incidents are found by the sensor `alerts`, which runs with the Dagster daemon (`make dev`).
    """
    from stream_assets.ops.alerts.show import describe, show_incidents

    found = describe(Settings.from_env())
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        show_incidents(console, found)


@alerts_app.command("close")
def close_alert(
    incident: Annotated[str, typer.Argument(help="The incident, as `stream alerts list` names it.")],
) -> None:
    """Close an incident that nothing will end by itself, such as days that will never be built again.

    Nobody is told. If its cause is seen again, it opens again.
    """
    from stream_assets.ops.alerts.outbox import Outbox

    if not Outbox(Settings.from_env().home).close(incident):
        raise StreamError(f"No open incident is called {incident}. `stream alerts list` shows them.")
    console.print(f"Closed {incident}.")

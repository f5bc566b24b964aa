"""What the sessions of one process share."""

from __future__ import annotations

from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

from stream_assets.engine.session import keep_shared_threads


def test_a_session_that_closes_leaves_the_threads_of_the_others_alone() -> None:
    """A client that closes calls this, while queries of other threads are about to hand work to the pool."""
    keep_shared_threads()
    pool = ExecutePlanResponseReattachableIterator._get_or_create_release_thread_pool()
    ExecutePlanResponseReattachableIterator.shutdown()
    assert pool.submit(lambda: 1).result() == 1

import logging
from collections.abc import Iterator

import pytest
import ray
from ray.cluster_utils import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of three nodes on this machine, to which this process is connected."""
    # A node that is lost is noticed after two seconds, not after fifteen.
    health = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
    # Ray's workers step back for everybody else's processes: on a busy machine they would hardly get on.
    config = {**health, "worker_niceness": 0}
    head = {"num_cpus": 1, "include_dashboard": False, "_system_config": config}
    nodes = Cluster(initialize_head=True, head_node_args=head)
    try:
        for _ in range(2):
            nodes.add_node(num_cpus=1)
        ray.init(address=nodes.address, log_to_driver=False, logging_level=logging.ERROR)
        yield nodes
    finally:
        ray.shutdown()
        nodes.shutdown()

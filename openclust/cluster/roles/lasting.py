"""The parts of a membership that outlive its roles: each role is handed them when it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from openclust.broker.amqp.connection import Connection
    from openclust.broker.server.broker import Broker
    from openclust.cluster.election.elector import Elector
    from openclust.cluster.log.cluster_uuid import ClusterUuid
    from openclust.cluster.log.commit_index import CommitIndex
    from openclust.cluster.log.replica import Replica
    from openclust.cluster.protocol.leadership import Leadership
    from openclust.cluster.protocol.links import Links
    from openclust.cluster.relay.meta_bindings import MetaBindings
    from openclust.cluster.shared_queues.consumer_proxies import ConsumerProxies
    from openclust.cluster.shared_queues.forwarding import Forwarding
    from openclust.cluster.shared_queues.handover import Handover
    from openclust.cluster.shared_queues.remote_consumers import RemoteConsumers
    from openclust.cluster.shared_queues.root_answers import RootAnswers
    from openclust.cluster.shared_queues.root_requests import RootRequests
    from openclust.cluster.storage.batch_commit import BatchCommit
    from openclust.cluster.storage.disk_health import DiskHealth
    from openclust.cluster.storage.log_store import LogStore
    from openclust.cluster.transactions.commit_registry import CommitRegistry
    from openclust.cluster.transactions.transactions import Transactions


class Lasting(NamedTuple):
    """None of them knows the role in force, but for the protocol by which it calls it."""

    broker: Broker
    links: Links
    leadership: Leadership[object]
    elector: Elector
    peer_connections: dict[str, Connection]
    """The links of peers to this broker, by their names."""

    # The log, and what goes to the disk
    replica: Replica
    log_store: LogStore
    disk_health: DiskHealth
    batch_commit: BatchCommit
    commit_index: CommitIndex
    commit_registry: CommitRegistry
    cluster_uuid: ClusterUuid

    # Shared queues, and messages between brokers
    meta_bindings: MetaBindings
    root_requests: RootRequests
    root_answers: RootAnswers
    transactions: Transactions
    forwarding: Forwarding
    handover: Handover
    remote_consumers: RemoteConsumers
    consumer_proxies: ConsumerProxies

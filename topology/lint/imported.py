"""A model of a running cluster without a cluster file."""

from __future__ import annotations

from collections.abc import Sequence

from openclust.shell.config.schema import ClusterSection, Config
from topology.lint.check import lint
from topology.model.address import host_of
from topology.model.file_entries import ListedBroker
from topology.model.graph import Model
from topology.model.live_cluster import Live, LiveBroker
from topology.rules.finding import FileReport

NOT_TOLD = ("OC409", "OC410", "OC5", "OC6", "OC7")
"""Rules that need the file: a running cluster does not tell places, directories, heartbeats, capacity and secrets."""


def model_of(live: Live, *, source: str) -> Model:
    """`source` is shown in place of a file's name."""
    brokers = sorted(live.brokers, key=lambda each: each.partition != "primary")
    config = Config(cluster_key=live.cluster_key, name=live.name, cluster=ClusterSection())
    return Model(config, file=source, brokers=tuple(map(_broker, brokers)), live=live)


def check_live(
    live: Live, *, source: str, select: Sequence[str] = (), ignore: Sequence[str] = ()
) -> tuple[FileReport, Model]:
    model = model_of(live, source=source)
    return lint(model, select=select, ignore=(*ignore, *NOT_TOLD)), model


def _broker(each: LiveBroker) -> ListedBroker:
    return ListedBroker(
        name=each.name,
        is_primary=each.partition == "primary",
        client=each.address,
        http=each.http.partition("//")[2].partition("/")[0],
        host=host_of(each.address),
    )

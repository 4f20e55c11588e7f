"""Parameters, and the limits of virtual hosts among them."""

from __future__ import annotations

import pytest

from openclust.broker.parameters.parameters import LIMITS, VHOST_LIMITS, Parameter, ParameterTable, with_limit
from openclust.broker.server.broker import Broker
from openclust.wire.errors import ChannelError


@pytest.mark.parametrize(
    ("component", "name", "value", "reason"),
    [
        ("nonsense", "p", "{}", "component nonsense not found"),
        (VHOST_LIMITS, "other", "{}", "is named 'limits'"),
        (VHOST_LIMITS, LIMITS, "[]", "limits are an object"),
        (VHOST_LIMITS, LIMITS, '{"max-nonsense":1}', "unrecognised limit 'max-nonsense'"),
        (VHOST_LIMITS, LIMITS, '{"max-queues":"x"}', "should be a number, actually was 'x'"),
        (VHOST_LIMITS, LIMITS, '{"max-queues":true}', "should be a number"),
        (VHOST_LIMITS, LIMITS, '{"max-queues":1.5}', "should be a number"),
        (VHOST_LIMITS, LIMITS, '{"max-queues":18446744073709551615}', "64 bits"),
    ],
)
def test_what_a_component_cannot_take_is_refused(component: str, name: str, value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        ParameterTable().set(Parameter("/", component, name, value))


def test_a_negative_limit_is_none() -> None:
    table = ParameterTable()
    table.set(Parameter("/", VHOST_LIMITS, LIMITS, '{"max-queues":-1,"max-connections":0}'))
    assert table.limit("/", "max-queues") is None
    assert table.limit("/", "max-connections") == 0
    assert table.limit("other", "max-queues") is None


def test_one_limit_changes_and_the_others_stay() -> None:
    one = with_limit(None, "max-queues", 5)
    both = with_limit(one, "max-connections", 1)
    assert both == '{"max-connections":1,"max-queues":5}'
    assert with_limit(both, "max-queues", None) == '{"max-connections":1}'
    assert with_limit(one, "max-queues", None) == ""


def test_parameters_go_with_their_virtual_host(broker: Broker) -> None:
    broker.put_vhost("v")
    broker.put_vhost_limit("v", "max-queues", 1)
    broker.delete_vhost("v")
    broker.put_vhost("v")
    assert broker.parameters.list() == [] and broker.parameters.limit("v", "max-queues") is None


def test_a_global_parameter_names_the_cluster(broker: Broker) -> None:
    broker.put_global_parameter("cluster_name", '"orders"')
    assert broker.cluster_name == "orders"
    with pytest.raises(ChannelError, match="the name of the cluster is a text"):
        broker.put_global_parameter("cluster_name", "5")
    broker.delete_global_parameter("cluster_name")
    assert broker.cluster_name == "openclust"
    with pytest.raises(ChannelError, match="no global parameter 'cluster_name'"):
        broker.delete_global_parameter("cluster_name")

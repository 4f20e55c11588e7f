"""pyrabbit2: every method of its client but those of the shovel plugin."""

from __future__ import annotations

from pyrabbit2 import Client
from tally import held_connection, place, tried, wanted

where = place()
client = Client(f"{where.host}:{where.http_port}", "guest", "guest")
end = held_connection(where, "pyrabbit2")

tried("is_alive", lambda: wanted(client.is_alive()))
tried("get_overview", client.get_overview)
tried("get_nodes", client.get_nodes)
tried("get_whoami", client.get_whoami)
tried("get_cluster_name", client.get_cluster_name)
tried("get_extensions", client.get_extensions)
tried("get_definitions", client.get_definitions)
tried("get_users", client.get_users)
tried("create_user", lambda: client.create_user("conf-user", "secret", "management"))
tried("create_vhost", lambda: client.create_vhost("conf-vhost"))
tried("get_all_vhosts", client.get_all_vhosts)
tried("get_vhost_names", lambda: wanted("conf-vhost" in client.get_vhost_names()))
tried("get_vhost", lambda: client.get_vhost("conf-vhost"))
tried("set_vhost_permissions", lambda: client.set_vhost_permissions("conf-vhost", "conf-user", ".*", ".*", ".*"))
tried("get_vhost_permissions", lambda: wanted(client.get_vhost_permissions("conf-vhost")))
tried("get_permissions", client.get_permissions)
tried("get_permission", lambda: client.get_permission("conf-vhost", "conf-user"))
tried("get_user_permissions", lambda: wanted(client.get_user_permissions("conf-user")))
tried("create_exchange", lambda: client.create_exchange("/", "conf-exchange", "topic"))
tried("get_exchange", lambda: client.get_exchange("/", "conf-exchange"))
tried("get_exchanges", lambda: wanted(client.get_exchanges("/")))
tried("create_queue", lambda: client.create_queue("/", "conf-queue", durable=True))
tried("get_queue", lambda: client.get_queue("/", "conf-queue"))
tried("get_queues", lambda: wanted(client.get_queues("/")))
tried("get_queue_depth", lambda: client.get_queue_depth("/", "conf-queue"))
tried("get_queue_depths", lambda: client.get_queue_depths("/", ["conf-queue"]))
tried("create_binding", lambda: client.create_binding("/", "conf-exchange", "conf-queue", "conf.key"))
tried("get_bindings", lambda: wanted(client.get_bindings()))
tried("get_queue_bindings", lambda: wanted(client.get_queue_bindings("/", "conf-queue")))
tried("get_bindings_from_exchange", lambda: wanted(client.get_bindings_from_exchange("/", "conf-exchange")))
tried("get_bindings_to_exchange", lambda: client.get_bindings_to_exchange("/", "conf-exchange"))
tried(
    "get_bindings_between_exch_and_queue",
    lambda: wanted(client.get_bindings_between_exch_and_queue("/", "conf-exchange", "conf-queue")),
)
tried("publish", lambda: wanted(client.publish("/", "conf-exchange", "conf.key", "hello")))
tried(
    "get_messages",
    lambda: wanted(client.get_messages("/", "conf-queue", count=1, requeue=True)[0]["payload"] == "hello"),
)
tried("purge_queue", lambda: client.purge_queue("/", "conf-queue"))
tried("purge_queues", lambda: client.purge_queues([("/", "conf-queue")]))
tried("delete_binding", lambda: client.delete_binding("/", "conf-exchange", "conf-queue", "conf.key"))
tried("delete_queue", lambda: client.delete_queue("/", "conf-queue"))
tried("delete_exchange", lambda: client.delete_exchange("/", "conf-exchange"))
tried("create_policy", lambda: client.create_policy("/", "conf-policy", pattern="^conf", definition={"max-length": 10}))
tried("get_policy", lambda: client.get_policy("/", "conf-policy"))
tried("get_all_policies", lambda: wanted(client.get_all_policies()))
tried("delete_policy", lambda: client.delete_policy("/", "conf-policy"))
connections = tried("get_connections", lambda: wanted(client.get_connections())) or [{"name": "none"}]
channels = tried("get_channels", lambda: wanted(client.get_channels())) or [{"name": "none"}]
tried("get_connection", lambda: wanted(client.get_connection(connections[0]["name"])))
tried("get_channel", lambda: wanted(client.get_channel(channels[0]["name"])))
tried("delete_connection", lambda: client.delete_connection(connections[0]["name"]))
tried("delete_permission", lambda: client.delete_permission("conf-vhost", "conf-user"))
tried("delete_vhost", lambda: client.delete_vhost("conf-vhost"))
tried("delete_user", lambda: client.delete_user("conf-user"))
end()

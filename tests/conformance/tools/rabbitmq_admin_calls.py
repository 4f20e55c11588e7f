"""rabbitmq-admin: every method of its AdminAPI."""

from __future__ import annotations

from rabbitmq_admin import AdminAPI
from tally import held_connection, place, tried, wanted

where = place()
api = AdminAPI(url=f"http://{where.host}:{where.http_port}", auth=("guest", "guest"))
end = held_connection(where, "rabbitmq-admin")

tried("overview", api.overview)
tried("get_cluster_name", api.get_cluster_name)
nodes = tried("list_nodes", lambda: wanted(api.list_nodes())) or [{"name": "none"}]
tried("get_node", lambda: wanted(api.get_node(nodes[0]["name"])))
tried("get_node(memory)", lambda: wanted(api.get_node(nodes[0]["name"], memory=True)))
tried("list_extensions", api.list_extensions)
tried("get_definitions", api.get_definitions)
tried("whoami", api.whoami)
tried("create_vhost", lambda: api.create_vhost("conf-vhost"))
tried("list_vhosts", lambda: wanted(api.list_vhosts()))
tried("get_vhost", lambda: wanted(api.get_vhost("conf-vhost")))
tried("is_vhost_alive", lambda: wanted(api.is_vhost_alive("/")))
tried("create_user", lambda: api.create_user("conf-user", "secret", tags="management"))
tried("list_users", lambda: wanted(api.list_users()))
tried("get_user", lambda: wanted(api.get_user("conf-user")))
tried("create_user_permission", lambda: api.create_user_permission("conf-user", "conf-vhost"))
tried("list_permissions", lambda: wanted(api.list_permissions()))
tried("list_user_permissions", lambda: wanted(api.list_user_permissions("conf-user")))
tried("get_user_permission", lambda: wanted(api.get_user_permission("conf-vhost", "conf-user")))
tried("create_exchange_for_vhost", lambda: api.create_exchange_for_vhost("conf-exchange", "/", {"type": "topic"}))
tried("list_exchanges", lambda: wanted(api.list_exchanges()))
tried("list_exchanges_for_vhost", lambda: wanted(api.list_exchanges_for_vhost("/")))
tried("get_exchange_for_vhost", lambda: wanted(api.get_exchange_for_vhost("conf-exchange", "/")))
tried("list_bindings", lambda: wanted(api.list_bindings()))
tried("list_bindings_for_vhost", lambda: wanted(api.list_bindings_for_vhost("/")))
tried("delete_exchange_for_vhost", lambda: api.delete_exchange_for_vhost("conf-exchange", "/"))
policy = {"definition": {"max-length": 10}, "pattern": "^conf", "priority": 0, "apply_to": "all"}
tried("create_policy_for_vhost", lambda: api.create_policy_for_vhost("/", "conf-policy", **policy))
tried("list_policies", lambda: wanted(api.list_policies()))
tried("list_policies_for_vhost", lambda: wanted(api.list_policies_for_vhost("/")))
tried("get_policy_for_vhost", lambda: wanted(api.get_policy_for_vhost("/", "conf-policy")))
tried("delete_policy_for_vhost", lambda: api.delete_policy_for_vhost("/", "conf-policy"))
connections = tried("list_connections", lambda: wanted(api.list_connections())) or [{"name": "none"}]
tried("get_connection", lambda: wanted(api.get_connection(connections[0]["name"])))
tried("list_connection_channels", lambda: wanted(api.list_connection_channels(connections[0]["name"])))
channels = tried("list_channels", lambda: wanted(api.list_channels())) or [{"name": "none"}]
tried("get_channel", lambda: wanted(api.get_channel(channels[0]["name"])))
tried("list_consumers", lambda: wanted(api.list_consumers()))
tried("list_consumers_for_vhost", lambda: wanted(api.list_consumers_for_vhost("/")))
tried("delete_connection", lambda: api.delete_connection(connections[0]["name"]))
tried("delete_user_permission", lambda: api.delete_user_permission("conf-user", "conf-vhost"))
tried("delete_user", lambda: api.delete_user("conf-user"))
tried("delete_vhost", lambda: api.delete_vhost("conf-vhost"))
tried("post_definitions", lambda: api.post_definitions({"users": [], "vhosts": []}))
end()

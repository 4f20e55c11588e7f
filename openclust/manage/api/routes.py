"""All calls of the HTTP API in one table: the router, the OpenAPI document and the page are made from it."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from openclust.manage.api import login
from openclust.manage.api.openapi import document
from openclust.manage.calls.call import (
    ADMINISTRATOR,
    ANYBODY,
    MONITORING,
    POLICYMAKER,
    WHOEVER_LOGS_IN,
    WITHOUT_LOGIN,
    Call,
    answer,
)
from openclust.manage.calls.http_logins import HTTP_LOGINS
from openclust.manage.calls.route import LIST_PARAMETERS, ApiRoute
from openclust.manage.checks import health, liveness
from openclust.manage.definitions import (
    exports,
    feature_flags,
    limits,
    parameters,
    permissions,
    policies,
    users,
    vhosts,
)
from openclust.manage.metrics import metrics_calls as metrics
from openclust.manage.resources import (
    bindings,
    channels,
    cluster,
    connections,
    exchanges,
    messages,
    nodes,
    overview,
    queues,
)

_USER = "/api/users/{user}"
_USER_LIMIT = "/api/user-limits/{user}/{limit}"
_VHOST = "/api/vhosts/{vhost}"
_VHOST_LIMIT = "/api/vhost-limits/{vhost}/{limit}"
_PARAMETER = "/api/parameters/{component}/{vhost}/{name}"
_GLOBAL_PARAMETER = "/api/global-parameters/{name}"
_PERMISSION = "/api/permissions/{vhost}/{user}"
_TOPIC_PERMISSION = "/api/topic-permissions/{vhost}/{user}"
_POLICY = "/api/policies/{vhost}/{name}"
_OPERATOR_POLICY = "/api/operator-policies/{vhost}/{name}"
_QUEUE = "/api/queues/{vhost}/{queue}"
_EXCHANGE = "/api/exchanges/{vhost}/{exchange}"
_BINDINGS_TO_QUEUE = "/api/bindings/{vhost}/e/{exchange}/q/{queue}"
_BINDINGS_TO_EXCHANGE = "/api/bindings/{vhost}/e/{exchange}/e/{destination}"
_PAGES = LIST_PARAMETERS


async def _openapi(call: Call) -> web.Response:
    http = call.server.config.http
    return answer(document(ROUTES, prefix=http.path_prefix, cookie=call.request.app[HTTP_LOGINS].cookie_name))


ROUTES: tuple[ApiRoute, ...] = (
    # -- the API itself
    ApiRoute("GET", "/api/openapi.json", _openapi, WITHOUT_LOGIN, "This API as an OpenAPI 3.1 document"),
    ApiRoute(
        "POST",
        "/api/login",
        login.login,
        WITHOUT_LOGIN,
        "Begin a session: a cookie in place of a password",
        body=login.LoginBody,
    ),
    ApiRoute("POST", "/api/logout", login.logout, WITHOUT_LOGIN, "End the session of this call"),
    ApiRoute("GET", "/api/auth", login.auth, WITHOUT_LOGIN, "Whether a login by OAuth is offered: it is not"),
    ApiRoute("GET", "/api/whoami", login.whoami, ANYBODY, "The user of this call"),
    ApiRoute("GET", "/api/extensions", login.extensions, ANYBODY, "The extensions of the API, as RabbitMQ lists them"),
    ApiRoute("GET", "/api/health", liveness.health, WITHOUT_LOGIN, "Whether the process runs"),
    ApiRoute("GET", "/api/ready", liveness.ready, WITHOUT_LOGIN, "Whether this broker can serve clients: 200, or 503"),
    ApiRoute("GET", "/api/overview", overview.overview, ANYBODY, "The cluster in numbers"),
    ApiRoute("GET", "/api/nodes", nodes.nodes, MONITORING, "All brokers", query=_PAGES),
    ApiRoute("GET", "/api/nodes/{node}", nodes.node, MONITORING, "One broker"),
    ApiRoute("GET", "/api/nodes/{node}/memory", nodes.memory, MONITORING, "What the memory of a broker is used for"),
    # -- health
    ApiRoute("GET", "/api/health/checks/alarms", health.alarms, ANYBODY, "Whether publishers wait anywhere"),
    ApiRoute(
        "GET", "/api/health/checks/local-alarms", health.local_alarms, ANYBODY, "Whether publishers wait at this broker"
    ),
    ApiRoute(
        "GET",
        "/api/health/checks/port-listener/{port}",
        health.port_listener,
        ANYBODY,
        "Whether this broker listens at a port",
    ),
    ApiRoute(
        "GET",
        "/api/health/checks/protocol-listener/{protocol}",
        health.protocol_listener,
        ANYBODY,
        "Whether this broker serves a protocol",
    ),
    ApiRoute(
        "GET",
        "/api/health/checks/certificate-expiration/{within}/{unit}",
        health.certificate_expiration,
        ANYBODY,
        "Whether certificates of this broker are valid for so long",
    ),
    ApiRoute(
        "GET",
        "/api/health/checks/virtual-hosts",
        health.virtual_hosts,
        ANYBODY,
        "Whether this broker serves its virtual hosts",
    ),
    ApiRoute(
        "GET",
        "/api/health/checks/node-is-quorum-critical",
        health.quorum_critical,
        ANYBODY,
        "Whether the cluster has a root without this broker",
    ),
    ApiRoute(
        "GET",
        "/api/health/checks/node-is-mirror-sync-critical",
        health.mirror_sync_critical,
        ANYBODY,
        "Whether another primary has a copy of the messages",
    ),
    ApiRoute(
        "GET",
        "/api/health/checks/ready-to-serve-clients",
        health.ready_to_serve_clients,
        ANYBODY,
        "Whether this broker can serve clients",
    ),
    ApiRoute(
        "GET",
        "/api/health/checks/is-in-service",
        health.is_in_service,
        ANYBODY,
        "Whether this broker is neither drained nor stopped",
    ),
    ApiRoute("GET", "/api/healthchecks/node", health.node, ANYBODY, "The older check of the broker that is asked"),
    ApiRoute("GET", "/api/healthchecks/node/{node}", health.node, ANYBODY, "The older check of a broker"),
    ApiRoute("GET", "/api/aliveness-test/{vhost}", health.aliveness, ANYBODY, "Publish a message and get it back"),
    # -- the cluster
    ApiRoute("GET", "/api/cluster", cluster.cluster, ANYBODY, "What this broker knows of the cluster"),
    ApiRoute(
        "POST",
        "/api/cluster/step-down",
        cluster.step_down,
        ADMINISTRATOR,
        "End this root's reign",
        body=cluster.StepDownBody,
    ),
    ApiRoute(
        "POST",
        "/api/cluster/force-root",
        cluster.force_root,
        ADMINISTRATOR,
        "Make this primary root without an election",
        body=cluster.ForceRootBody,
    ),
    ApiRoute(
        "POST",
        "/api/cluster/drain",
        cluster.drain,
        ADMINISTRATOR,
        "Empty this broker of its clients, or stop doing so",
        body=cluster.DrainBody,
    ),
    ApiRoute(
        "GET",
        "/api/target",
        cluster.target,
        WHOEVER_LOGS_IN,
        "The broker that a new client should connect to",
        query=("connect_to", "tls"),
    ),
    # -- metrics
    ApiRoute(
        "GET", "/metrics", metrics.metrics, MONITORING, "This broker's metrics for Prometheus", produces="text/plain"
    ),
    ApiRoute(
        "GET",
        "/metrics/per-object",
        metrics.metrics_per_object,
        MONITORING,
        "This broker's metrics, those of its queues and exchanges one by one",
        produces="text/plain",
    ),
    ApiRoute(
        "GET",
        "/metrics/detailed",
        metrics.metrics_detailed,
        MONITORING,
        "Some families of metrics, of all virtual hosts or of some",
        query=("family", "vhost"),
        produces="text/plain",
    ),
    # -- what moves messages
    ApiRoute("GET", "/api/queues", queues.queues, ANYBODY, "All queues", query=_PAGES),
    ApiRoute("GET", "/api/queues/{vhost}", queues.queues, ANYBODY, "The queues of a virtual host", query=_PAGES),
    ApiRoute("GET", _QUEUE, queues.queue, ANYBODY, "One queue"),
    ApiRoute("PUT", _QUEUE, queues.put_queue, ANYBODY, "Declare a queue", body=queues.QueueBody),
    ApiRoute("DELETE", _QUEUE, queues.delete_queue, ANYBODY, "Delete a queue", query=("if-empty", "if-unused")),
    ApiRoute("DELETE", f"{_QUEUE}/contents", queues.purge_queue, ANYBODY, "Drop the messages that wait in a queue"),
    ApiRoute("POST", f"{_QUEUE}/get", messages.get, ANYBODY, "Get messages out of a queue", body=messages.GetBody),
    ApiRoute(
        "POST",
        f"{_QUEUE}/actions",
        queues.act_on_queue,
        ANYBODY,
        "Accept RabbitMQ's actions on mirrored queues",
        body=queues.QueueActionBody,
    ),
    ApiRoute("GET", f"{_QUEUE}/bindings", bindings.bindings_of_queue, ANYBODY, "The bindings of a queue", query=_PAGES),
    ApiRoute("GET", "/api/exchanges", exchanges.exchanges, ANYBODY, "All exchanges", query=_PAGES),
    ApiRoute(
        "GET", "/api/exchanges/{vhost}", exchanges.exchanges, ANYBODY, "The exchanges of a virtual host", query=_PAGES
    ),
    ApiRoute("GET", _EXCHANGE, exchanges.exchange, ANYBODY, "One exchange"),
    ApiRoute("PUT", _EXCHANGE, exchanges.put_exchange, ANYBODY, "Declare an exchange", body=exchanges.ExchangeBody),
    ApiRoute("DELETE", _EXCHANGE, exchanges.delete_exchange, ANYBODY, "Delete an exchange", query=("if-unused",)),
    ApiRoute("POST", f"{_EXCHANGE}/publish", messages.publish, ANYBODY, "Publish a message", body=messages.PublishBody),
    ApiRoute(
        "GET",
        f"{_EXCHANGE}/bindings/source",
        bindings.bindings_from_exchange,
        ANYBODY,
        "The bindings that lead away from an exchange",
        query=_PAGES,
    ),
    ApiRoute(
        "GET",
        f"{_EXCHANGE}/bindings/destination",
        bindings.bindings_to_exchange,
        ANYBODY,
        "The bindings that lead to an exchange",
        query=_PAGES,
    ),
    ApiRoute("GET", "/api/bindings", bindings.bindings, ANYBODY, "All bindings", query=_PAGES),
    ApiRoute(
        "GET", "/api/bindings/{vhost}", bindings.bindings, ANYBODY, "The bindings of a virtual host", query=_PAGES
    ),
    *(
        route
        for path in (_BINDINGS_TO_QUEUE, _BINDINGS_TO_EXCHANGE)
        for route in (
            ApiRoute("GET", path, bindings.bindings_between, ANYBODY, "The bindings between two ends", query=_PAGES),
            ApiRoute("POST", path, bindings.bind, ANYBODY, "Make a binding", body=bindings.BindingBody),
            ApiRoute("GET", f"{path}/{{key}}", bindings.binding, ANYBODY, "One binding"),
            ApiRoute("DELETE", f"{path}/{{key}}", bindings.unbind, ANYBODY, "Delete a binding"),
        )
    ),
    ApiRoute("GET", "/api/connections", connections.connections, ANYBODY, "All connections", query=_PAGES),
    ApiRoute("GET", "/api/connections/{connection}", connections.connection, ANYBODY, "One connection"),
    ApiRoute("DELETE", "/api/connections/{connection}", connections.close_connection, ANYBODY, "Close a connection"),
    ApiRoute(
        "GET",
        "/api/connections/{connection}/channels",
        connections.channels_of,
        ANYBODY,
        "The channels of a connection",
        query=_PAGES,
    ),
    ApiRoute(
        "GET",
        "/api/connections/username/{user}",
        connections.connections,
        ANYBODY,
        "The connections of a user",
        query=_PAGES,
    ),
    ApiRoute(
        "DELETE",
        "/api/connections/username/{user}",
        connections.close_connections_of_user,
        ANYBODY,
        "Close all connections of a user",
    ),
    ApiRoute(
        "GET",
        "/api/vhosts/{vhost}/connections",
        connections.connections,
        ANYBODY,
        "The connections to a virtual host",
        query=_PAGES,
    ),
    ApiRoute("GET", "/api/channels", channels.channels, ANYBODY, "All channels", query=_PAGES),
    ApiRoute("GET", "/api/channels/{channel}", channels.channel, ANYBODY, "One channel"),
    ApiRoute(
        "GET",
        "/api/vhosts/{vhost}/channels",
        channels.channels,
        ANYBODY,
        "The channels of a vhost",
        query=_PAGES,
    ),
    ApiRoute("GET", "/api/consumers", channels.consumers, ANYBODY, "All consumers", query=_PAGES),
    ApiRoute("GET", "/api/consumers/{vhost}", channels.consumers, ANYBODY, "The consumers of a vhost", query=_PAGES),
    # -- users and what they may do
    ApiRoute("GET", "/api/users", users.users, ADMINISTRATOR, "All users", query=_PAGES),
    ApiRoute(
        "GET",
        "/api/users/without-permissions",
        users.users_without_permissions,
        ADMINISTRATOR,
        "The users who may enter no virtual host",
        query=_PAGES,
    ),
    ApiRoute(
        "POST",
        "/api/users/bulk-delete",
        users.delete_users,
        ADMINISTRATOR,
        "Delete several users",
        body=users.BulkDeleteBody,
    ),
    ApiRoute("GET", _USER, users.user, ADMINISTRATOR, "One user"),
    ApiRoute("PUT", _USER, users.put_user, ADMINISTRATOR, "Make or change a user", body=users.UserBody),
    ApiRoute("DELETE", _USER, users.delete_user, ADMINISTRATOR, "Delete a user"),
    ApiRoute(
        "GET",
        f"{_USER}/permissions",
        users.permissions_of_user,
        ADMINISTRATOR,
        "The permissions of a user",
        query=_PAGES,
    ),
    ApiRoute(
        "GET",
        f"{_USER}/topic-permissions",
        users.topic_permissions_of_user,
        ADMINISTRATOR,
        "The topic permissions of a user",
        query=_PAGES,
    ),
    ApiRoute("GET", "/api/permissions", permissions.permissions, ADMINISTRATOR, "All permissions", query=_PAGES),
    ApiRoute("GET", _PERMISSION, permissions.permission, ADMINISTRATOR, "The permissions of a user in a virtual host"),
    ApiRoute(
        "PUT",
        _PERMISSION,
        permissions.put_permission,
        ADMINISTRATOR,
        "Give a user permissions in a virtual host",
        body=permissions.PermissionBody,
    ),
    ApiRoute(
        "DELETE",
        _PERMISSION,
        permissions.delete_permission,
        ADMINISTRATOR,
        "Take a user's permissions in a virtual host away",
    ),
    ApiRoute(
        "GET",
        "/api/topic-permissions",
        permissions.topic_permissions,
        ADMINISTRATOR,
        "All topic permissions",
        query=_PAGES,
    ),
    ApiRoute(
        "GET",
        _TOPIC_PERMISSION,
        permissions.topic_permissions_in_vhost,
        ADMINISTRATOR,
        "The topic permissions of a user in a virtual host",
        query=_PAGES,
    ),
    ApiRoute(
        "PUT",
        _TOPIC_PERMISSION,
        permissions.put_topic_permission,
        ADMINISTRATOR,
        "Say which topics of an exchange a user may use",
        body=permissions.TopicPermissionBody,
    ),
    ApiRoute(
        "DELETE",
        _TOPIC_PERMISSION,
        permissions.delete_topic_permissions,
        ADMINISTRATOR,
        "Let a user use all topics of a virtual host",
    ),
    ApiRoute("GET", "/api/user-limits", limits.user_limits, MONITORING, "The limits of all users", query=_PAGES),
    ApiRoute("GET", "/api/user-limits/{user}", limits.user_limits, MONITORING, "The limits of a user", query=_PAGES),
    ApiRoute("PUT", _USER_LIMIT, limits.put_user_limit, ADMINISTRATOR, "Set a limit of a user", body=limits.LimitBody),
    ApiRoute("DELETE", _USER_LIMIT, limits.delete_user_limit, ADMINISTRATOR, "Take a limit of a user away"),
    # -- virtual hosts, policies and parameters
    ApiRoute("GET", "/api/vhosts", vhosts.vhosts, ANYBODY, "All virtual hosts", query=_PAGES),
    ApiRoute("GET", _VHOST, vhosts.vhost, ANYBODY, "One virtual host"),
    ApiRoute("PUT", _VHOST, vhosts.put_vhost, ADMINISTRATOR, "Make or describe a virtual host", body=vhosts.VhostBody),
    ApiRoute("DELETE", _VHOST, vhosts.delete_vhost, ADMINISTRATOR, "Delete a virtual host and all that is in it"),
    ApiRoute(
        "GET",
        f"{_VHOST}/permissions",
        vhosts.permissions_of_vhost,
        ADMINISTRATOR,
        "The permissions in a virtual host",
        query=_PAGES,
    ),
    ApiRoute(
        "GET",
        f"{_VHOST}/topic-permissions",
        vhosts.topic_permissions_of_vhost,
        ADMINISTRATOR,
        "The topic permissions in a virtual host",
        query=_PAGES,
    ),
    ApiRoute("GET", "/api/vhost-limits", limits.vhost_limits, ANYBODY, "The limits of all virtual hosts", query=_PAGES),
    ApiRoute(
        "GET",
        "/api/vhost-limits/{vhost}",
        limits.vhost_limits,
        ANYBODY,
        "The limits of a virtual host",
        query=_PAGES,
    ),
    ApiRoute(
        "PUT",
        _VHOST_LIMIT,
        limits.put_vhost_limit,
        ADMINISTRATOR,
        "Set a limit of a virtual host",
        body=limits.LimitBody,
    ),
    ApiRoute("DELETE", _VHOST_LIMIT, limits.delete_vhost_limit, ADMINISTRATOR, "Take a limit of a virtual host away"),
    ApiRoute("GET", "/api/policies", policies.policies, ANYBODY, "All policies", query=_PAGES),
    ApiRoute(
        "GET", "/api/policies/{vhost}", policies.policies, ANYBODY, "The policies of a virtual host", query=_PAGES
    ),
    ApiRoute("GET", _POLICY, policies.policy, ANYBODY, "One policy"),
    ApiRoute("PUT", _POLICY, policies.put_policy, POLICYMAKER, "Make or change a policy", body=policies.PolicyBody),
    ApiRoute("DELETE", _POLICY, policies.delete_policy, POLICYMAKER, "Delete a policy"),
    ApiRoute(
        "GET", "/api/operator-policies", policies.operator_policies, ANYBODY, "All operator policies", query=_PAGES
    ),
    ApiRoute(
        "GET",
        "/api/operator-policies/{vhost}",
        policies.operator_policies,
        ANYBODY,
        "The operator policies of a virtual host",
        query=_PAGES,
    ),
    ApiRoute("GET", _OPERATOR_POLICY, policies.operator_policy, ANYBODY, "One operator policy"),
    ApiRoute(
        "PUT",
        _OPERATOR_POLICY,
        policies.put_operator_policy,
        ADMINISTRATOR,
        "Make or change an operator policy",
        body=policies.PolicyBody,
    ),
    ApiRoute("DELETE", _OPERATOR_POLICY, policies.delete_operator_policy, ADMINISTRATOR, "Delete an operator policy"),
    ApiRoute("GET", "/api/parameters", parameters.parameters, POLICYMAKER, "All parameters", query=_PAGES),
    ApiRoute(
        "GET",
        "/api/parameters/{component}",
        parameters.parameters,
        POLICYMAKER,
        "The parameters of a component",
        query=_PAGES,
    ),
    ApiRoute(
        "GET",
        "/api/parameters/{component}/{vhost}",
        parameters.parameters,
        POLICYMAKER,
        "The parameters of a component in a virtual host",
        query=_PAGES,
    ),
    ApiRoute("GET", _PARAMETER, parameters.parameter, POLICYMAKER, "One parameter"),
    ApiRoute(
        "PUT",
        _PARAMETER,
        parameters.put_parameter,
        POLICYMAKER,
        "Set a parameter of a component",
        body=parameters.ParameterBody,
    ),
    ApiRoute("DELETE", _PARAMETER, parameters.delete_parameter, POLICYMAKER, "Delete a parameter"),
    ApiRoute(
        "GET",
        "/api/global-parameters",
        parameters.global_parameters,
        POLICYMAKER,
        "All global parameters",
        query=_PAGES,
    ),
    ApiRoute("GET", _GLOBAL_PARAMETER, parameters.global_parameter, POLICYMAKER, "One global parameter"),
    ApiRoute(
        "PUT",
        _GLOBAL_PARAMETER,
        parameters.put_global_parameter,
        ADMINISTRATOR,
        "Set a global parameter",
        body=parameters.ParameterBody,
    ),
    ApiRoute(
        "DELETE", _GLOBAL_PARAMETER, parameters.delete_global_parameter, ADMINISTRATOR, "Delete a global parameter"
    ),
    ApiRoute("GET", "/api/cluster-name", parameters.cluster_name, ANYBODY, "The name of the cluster"),
    ApiRoute(
        "PUT",
        "/api/cluster-name",
        parameters.put_cluster_name,
        ADMINISTRATOR,
        "Name the cluster",
        body=parameters.ClusterNameBody,
    ),
    ApiRoute(
        "GET",
        "/api/feature-flags",
        feature_flags.feature_flags,
        ANYBODY,
        "RabbitMQ's feature flags whose feature is here",
        query=_PAGES,
    ),
    ApiRoute("GET", "/api/deprecated-features", feature_flags.deprecated_features, ANYBODY, "Features that will go"),
    ApiRoute(
        "GET",
        "/api/deprecated-features/used",
        feature_flags.deprecated_features,
        ANYBODY,
        "Features that will go, and are used",
    ),
    # -- definitions
    ApiRoute("GET", "/api/definitions", exports.definitions, ADMINISTRATOR, "All definitions, as one document"),
    ApiRoute(
        "GET",
        "/api/definitions/{vhost}",
        exports.definitions_of_vhost,
        ADMINISTRATOR,
        "The definitions of a virtual host, as one document",
    ),
    ApiRoute(
        "POST",
        "/api/definitions",
        exports.import_definitions,
        ADMINISTRATOR,
        "Import a document of definitions",
        body=dict[str, Any],
        query=("skip_problems", "report"),
    ),
    ApiRoute(
        "POST",
        "/api/definitions/{vhost}",
        exports.import_definitions,
        ADMINISTRATOR,
        "Import a document of definitions into a virtual host",
        body=dict[str, Any],
        query=("skip_problems", "report"),
    ),
)

"""What is asked of both brokers, in the order it is asked."""

from __future__ import annotations

from typing import Any, NamedTuple
from urllib.parse import quote

from tests.conformance.scene import VHOST, Scene


class Question(NamedTuple):
    """`name` is what the recorded shape is found by."""

    name: str
    method: str
    path: str
    body: Any = None


_READS = f"""
    /api/overview /api/cluster-name /api/nodes /api/nodes/{{node}} /api/nodes/{{node}}/memory /api/extensions
    /api/whoami /api/auth
    /api/definitions /api/definitions/{VHOST} /api/vhosts /api/vhosts/{VHOST} /api/vhosts/{VHOST}/permissions
    /api/vhosts/{VHOST}/topic-permissions /api/vhosts/{VHOST}/connections /api/vhosts/{VHOST}/channels
    /api/users /api/users/ /api/users/conformance /api/users/without-permissions /api/users/conformance/permissions
    /api/users/conformance/topic-permissions /api/permissions /api/permissions/{VHOST}/conformance
    /api/topic-permissions
    /api/topic-permissions/{VHOST}/conformance /api/policies /api/policies/{VHOST} /api/policies/{VHOST}/bounded
    /api/operator-policies /api/operator-policies/{VHOST} /api/operator-policies/{VHOST}/kept
    /api/vhosts/missing /api/vhosts/missing/permissions /api/users/missing /api/users/missing/permissions
    /api/users/missing/topic-permissions /api/permissions/{VHOST}/missing /api/permissions/missing/conformance
    /api/topic-permissions/{VHOST}/missing /api/topic-permissions/{VHOST}/idle /api/policies/{VHOST}/missing
    /api/policies/missing /api/operator-policies/{VHOST}/missing /api/vhost-limits/missing /api/user-limits/missing
    /api/parameters/vhost-limits /api/parameters/vhost-limits/{VHOST} /api/parameters/vhost-limits/{VHOST}/limits
    /api/parameters/shovel/missing /api/parameters/shovel/{VHOST}/missing /api/global-parameters/missing
    /api/parameters /api/parameters/shovel /api/global-parameters /api/global-parameters/conformance
    /api/vhost-limits /api/vhost-limits/{VHOST} /api/user-limits /api/user-limits/conformance
    /api/queues /api/queues/{VHOST} /api/queues/{VHOST}/work /api/queues/{VHOST}/work/bindings
    /api/queues/{VHOST}?page=1&page_size=2&sort=messages&sort_reverse=true /api/queues/{VHOST}?columns=name,messages
    /api/queues/{VHOST}?page=1&name=^w&use_regex=true /api/queues/{VHOST}/missing
    /api/exchanges /api/exchanges/{VHOST} /api/exchanges/{VHOST}/events /api/exchanges/{VHOST}/events/bindings/source
    /api/exchanges/{VHOST}/audit/bindings/destination /api/exchanges/{VHOST}/missing
    /api/bindings /api/bindings/{VHOST} /api/bindings/{VHOST}/e/events/q/work /api/bindings/{VHOST}/e/events/e/audit
    /api/bindings/{VHOST}/e/audit/q/idle/~ /api/bindings/{VHOST}/e/events/e/audit/%2523
    /api/bindings/{VHOST}/e/amq.default/q/work /api/bindings/{VHOST}/e/amq.default/q/work/work
    /api/exchanges/{VHOST}/amq.default /api/exchanges/{VHOST}/amq.default/bindings/source
    /api/exchanges/{VHOST}/amq.topic?columns=name,type /api/queues/{VHOST}/idle?columns=name,messages
    /api/connections /api/connections/{{connection}} /api/connections/{{connection}}/channels
    /api/connections/username/guest
    /api/connections/missing /api/channels /api/channels/{{channel}} /api/consumers /api/consumers/{VHOST}
    /api/health/checks/alarms /api/health/checks/local-alarms /api/health/checks/virtual-hosts
    /api/health/checks/node-is-quorum-critical /api/health/checks/node-is-mirror-sync-critical
    /api/health/checks/port-listener/1 /api/health/checks/protocol-listener/amqp091
    /api/health/checks/protocol-listener/mqtt /api/health/checks/certificate-expiration/1/weeks
    /api/aliveness-test/{VHOST} /api/feature-flags /api/healthchecks/node
"""

_WRITES: tuple[tuple[str, str, Any], ...] = (
    ("PUT", f"/api/queues/{VHOST}/made", {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}),
    ("PUT", f"/api/queues/{VHOST}/made", {"durable": True, "auto_delete": False, "arguments": {"x-max-length": 5}}),
    ("PUT", f"/api/queues/{VHOST}/made", {"durable": False}),
    ("PUT", f"/api/exchanges/{VHOST}/made", {"type": "direct", "durable": True}),
    ("PUT", f"/api/exchanges/{VHOST}/made", {"type": "fanout", "durable": True}),
    ("PUT", f"/api/exchanges/{VHOST}/wrong", {"type": "nonsense"}),
    ("POST", f"/api/bindings/{VHOST}/e/made/q/made", {"routing_key": "k", "arguments": {"x": 1}}),
    ("POST", f"/api/bindings/{VHOST}/e/made/q/made", {"routing_key": "plain"}),
    ("GET", f"/api/bindings/{VHOST}/e/made/q/made", None),
    ("GET", f"/api/bindings/{VHOST}/e/made/q/made/plain", None),
    ("POST", f"/api/bindings/{VHOST}/e/made/q/missing", {"routing_key": "plain"}),
    ("POST", f"/api/bindings/{VHOST}/e/missing/q/made", {"routing_key": "plain"}),
    ("POST", f"/api/bindings/{VHOST}/e/amq.topic/e/made", {"routing_key": "#"}),
    ("DELETE", f"/api/bindings/{VHOST}/e/amq.topic/e/made/%2523", None),
    ("DELETE", f"/api/bindings/{VHOST}/e/amq.default/q/made/made", None),
    ("PUT", f"/api/queues/{VHOST}/amq.made", {}),
    ("PUT", f"/api/queues/{VHOST}/wrong", {"arguments": {"x-max-length": -1}}),
    ("PUT", f"/api/exchanges/{VHOST}/amq.made", {}),
    ("DELETE", f"/api/exchanges/{VHOST}/amq.topic", None),
    ("DELETE", f"/api/bindings/{VHOST}/e/made/q/made/plain", None),
    ("DELETE", f"/api/bindings/{VHOST}/e/made/q/made/plain", None),
    (
        "POST",
        f"/api/exchanges/{VHOST}/made/publish",
        {
            "properties": {"delivery_mode": 2, "headers": {"h": 1}},
            "routing_key": "k",
            "payload": "aGVsbG8=",
            "payload_encoding": "base64",
        },
    ),
    (
        "POST",
        f"/api/exchanges/{VHOST}/made/publish",
        {"properties": {}, "routing_key": "none", "payload": "lost", "payload_encoding": "string"},
    ),
    (
        "POST",
        f"/api/exchanges/{VHOST}/amq.default/publish",
        {"properties": {}, "routing_key": "made", "payload": "direct", "payload_encoding": "string"},
    ),
    (
        "POST",
        f"/api/exchanges/{VHOST}/missing/publish",
        {"properties": {}, "routing_key": "none", "payload": "lost", "payload_encoding": "string"},
    ),
    ("POST", f"/api/exchanges/{VHOST}/made/publish", {"routing_key": "none", "payload": "lost"}),
    (
        "POST",
        f"/api/exchanges/{VHOST}/made/publish",
        {"properties": {}, "routing_key": "none", "payload": "lost", "payload_encoding": "wrong"},
    ),
    ("POST", f"/api/queues/{VHOST}/made/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "wrong"}),
    (
        "POST",
        f"/api/queues/{VHOST}/made/get",
        {"count": 1, "ackmode": "reject_requeue_true", "encoding": "auto"},
    ),
    (
        "POST",
        f"/api/queues/{VHOST}/made/get",
        {"count": 2, "ackmode": "ack_requeue_true", "encoding": "auto", "truncate": 3},
    ),
    ("POST", f"/api/queues/{VHOST}/made/get", {"count": 1, "ackmode": "ack_requeue_false", "encoding": "base64"}),
    ("POST", f"/api/queues/{VHOST}/made/get", {"count": 1}),
    ("POST", f"/api/queues/{VHOST}/missing/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}),
    ("DELETE", f"/api/queues/{VHOST}/made?if-empty=true", None),
    ("DELETE", f"/api/queues/{VHOST}/work?if-unused=true", None),
    ("DELETE", f"/api/queues/{VHOST}/made/contents", None),
    ("DELETE", f"/api/queues/{VHOST}/missing/contents", None),
    ("POST", f"/api/queues/{VHOST}/made/actions", {"action": "nonsense"}),
    ("POST", f"/api/queues/{VHOST}/made/actions", {"action": "sync"}),
    ("DELETE", f"/api/exchanges/{VHOST}/events?if-unused=true", None),
    ("DELETE", f"/api/exchanges/{VHOST}/made", None),
    ("DELETE", f"/api/exchanges/{VHOST}/made", None),
    ("DELETE", f"/api/queues/{VHOST}/made", None),
    ("DELETE", f"/api/queues/{VHOST}/made", None),
    ("PUT", "/api/cluster-name", {"name": "a name for the tests"}),
    ("PUT", "/api/users/one", {"password": "one", "tags": "management"}),
    ("PUT", "/api/users/two", {"password": "two", "tags": "nonsense"}),
    ("PUT", "/api/users/three", {"tags": ""}),
    ("PUT", "/api/users/four", {"password": "four"}),
    ("PUT", "/api/users/five", {"password": "five", "password_hash": "", "tags": ""}),
    ("PUT", "/api/users/five", {"password_hash": "no hash!", "tags": ""}),
    ("PUT", "/api/users/five", {"password": "", "tags": ["one", "two"]}),
    ("PUT", "/api/users/five", {"tags": "monitoring"}),
    ("PUT", "/api/users/five", {"password_hash": "", "tags": ""}),
    ("GET", "/api/users/five", None),
    ("POST", "/api/users/bulk-delete", {"users": ["five", "missing"]}),
    ("POST", "/api/users/bulk-delete", {}),
    ("POST", "/api/users/bulk-delete", {"users": ["one", "two", "three"]}),
    ("DELETE", "/api/users/one", None),
    ("PUT", f"/api/permissions/{VHOST}/nobody", {"configure": "", "write": "", "read": ""}),
    ("PUT", f"/api/permissions/{VHOST}/idle", {"configure": "(", "write": "", "read": ""}),
    ("PUT", f"/api/permissions/{VHOST}/idle", {"configure": "", "write": "", "read": ""}),
    ("DELETE", f"/api/permissions/{VHOST}/idle", None),
    ("DELETE", f"/api/permissions/{VHOST}/idle", None),
    ("PUT", f"/api/policies/{VHOST}/wrong", {"pattern": ".*", "definition": {"nonsense": 1}}),
    ("PUT", f"/api/policies/{VHOST}/wrong", {"definition": {"max-length": 1}}),
    ("PUT", f"/api/policies/{VHOST}/wrong", {"pattern": "(", "definition": {"max-length": 1}}),
    ("PUT", f"/api/policies/{VHOST}/wrong", {"pattern": ".*", "definition": {"max-length": -1}}),
    ("PUT", f"/api/policies/{VHOST}/wrong", {"pattern": ".*", "definition": {"max-length": 1}, "priority": "x"}),
    ("PUT", f"/api/policies/{VHOST}/wrong", {"pattern": ".*", "definition": {"max-length": 1}, "apply-to": "x"}),
    ("PUT", f"/api/policies/{VHOST}/wrong", {"pattern": ".*", "definition": {}}),
    ("PUT", "/api/policies/missing/one", {"pattern": ".*", "definition": {"max-length": 1}}),
    ("PUT", f"/api/policies/{VHOST}/made", {"pattern": "^made", "definition": {"max-length": 1}}),
    ("PUT", f"/api/policies/{VHOST}/made", {"pattern": "^made", "definition": {"max-length": 2}}),
    ("DELETE", f"/api/policies/{VHOST}/made", None),
    ("PUT", f"/api/operator-policies/{VHOST}/wrong", {"pattern": ".*", "definition": {"dead-letter-exchange": "x"}}),
    ("PUT", f"/api/operator-policies/{VHOST}/made", {"pattern": "^made", "definition": {"max-length": 1}}),
    ("DELETE", f"/api/operator-policies/{VHOST}/made", None),
    ("DELETE", f"/api/operator-policies/{VHOST}/made", None),
    ("DELETE", f"/api/policies/{VHOST}/missing", None),
    ("PUT", f"/api/vhost-limits/{VHOST}/max-queues", {"value": 100}),
    ("PUT", f"/api/vhost-limits/{VHOST}/nonsense", {"value": 100}),
    ("PUT", f"/api/vhost-limits/{VHOST}/max-queues", {"value": "x"}),
    ("PUT", f"/api/vhost-limits/{VHOST}/max-queues", {"value": 1.5}),
    ("PUT", f"/api/vhost-limits/{VHOST}/max-queues", {"value": -1}),
    ("PUT", f"/api/vhost-limits/{VHOST}/max-queues", {}),
    ("PUT", f"/api/vhost-limits/{VHOST}/max-channels", {"value": 1}),
    ("PUT", "/api/vhost-limits/missing/max-queues", {"value": 1}),
    ("DELETE", f"/api/vhost-limits/{VHOST}/max-queues", None),
    ("DELETE", f"/api/vhost-limits/{VHOST}/nonsense", None),
    ("PUT", "/api/user-limits/conformance/max-connections", {"value": 100}),
    ("PUT", "/api/user-limits/conformance/max-queues", {"value": 1}),
    ("PUT", "/api/user-limits/conformance/max-channels", {"value": "x"}),
    ("PUT", "/api/user-limits/missing/max-channels", {"value": 1}),
    ("DELETE", "/api/user-limits/conformance/max-connections", None),
    ("PUT", "/api/global-parameters/one", {}),
    ("PUT", "/api/global-parameters/one", {"value": 1}),
    ("PUT", "/api/global-parameters/one", {"value": [2]}),
    ("GET", "/api/global-parameters/one", None),
    ("DELETE", "/api/global-parameters/one", None),
    ("DELETE", "/api/global-parameters/one", None),
    ("PUT", f"/api/parameters/nonsense/{VHOST}/one", {"value": {}}),
    ("PUT", f"/api/parameters/vhost-limits/{VHOST}/limits", {"value": {"max-connections": 900}}),
    ("PUT", f"/api/parameters/vhost-limits/{VHOST}/limits", {"value": {"nonsense": 900}}),
    ("PUT", f"/api/parameters/vhost-limits/{VHOST}/limits", {}),
    ("DELETE", f"/api/parameters/vhost-limits/{VHOST}/limits", None),
    ("DELETE", f"/api/parameters/vhost-limits/{VHOST}/limits", None),
    ("PUT", f"/api/topic-permissions/{VHOST}/idle", {"write": ".*", "read": ".*"}),
    ("PUT", f"/api/topic-permissions/{VHOST}/missing", {"exchange": "e", "write": ".*", "read": ".*"}),
    ("PUT", f"/api/topic-permissions/{VHOST}/idle", {"exchange": "missing", "write": ".*", "read": ".*"}),
    ("DELETE", f"/api/topic-permissions/{VHOST}/idle", None),
    ("PUT", f"/api/topic-permissions/{VHOST}/idle", {"exchange": "amq.topic", "write": ".*", "read": ".*"}),
    ("PUT", f"/api/topic-permissions/{VHOST}/idle", {"exchange": "events", "write": ".*", "read": ".*"}),
    ("DELETE", f"/api/topic-permissions/{VHOST}/idle", None),
    ("DELETE", f"/api/topic-permissions/{VHOST}/idle", None),
    (
        "POST",
        "/api/definitions",
        {"queues": [{"name": "imported", "vhost": VHOST, "durable": True, "auto_delete": False, "arguments": {}}]},
    ),
    (
        "POST",
        f"/api/definitions/{VHOST}",
        {"queues": [{"name": "imported2", "durable": True, "auto_delete": False, "arguments": {}}]},
    ),
    ("POST", "/api/definitions/missing", {"queues": []}),
    ("PUT", f"/api/vhosts/{VHOST}-two", None),
    ("PUT", f"/api/vhosts/{VHOST}-two", {"description": "two", "tags": "a,b"}),
    ("GET", f"/api/vhosts/{VHOST}-two/permissions", None),
    ("DELETE", f"/api/vhosts/{VHOST}-two", None),
    ("DELETE", f"/api/vhosts/{VHOST}-two", None),
    ("DELETE", "/api/connections/{connection}", None),
    ("DELETE", "/api/connections/missing", None),
    ("GET", "/api/nonsense", None),
)


def questions(made: Scene) -> list[Question]:
    """All questions, reads first: their answers do not depend on what the writes have changed."""
    found = [Question(f"GET {path}", "GET", _filled(path, made)) for path in _READS.split()]
    seen: dict[str, int] = {}
    for method, path, body in _WRITES:
        count = seen[f"{method} {path}"] = seen.get(f"{method} {path}", 0) + 1
        name = f"{method} {path}" if count == 1 else f"{method} {path} #{count}"
        found.append(Question(name, method, _filled(path, made), body))
    return found


def _filled(path: str, made: Scene) -> str:
    return path.format_map({name: quote(value, safe="") for name, value in made.names.items()})

"""rabbitmqadmin, as Debian's RabbitMQ brings it: every command."""

from __future__ import annotations

import json
import subprocess
import tempfile

from tally import held_connection, place, tried, wanted

where = place()
end = held_connection(where, "rabbitmqadmin")
folder = tempfile.mkdtemp()


def admin(*arguments: str) -> str:
    command = ["rabbitmqadmin", "-H", where.host, "-P", str(where.http_port), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
    if ran.returncode:
        raise RuntimeError((ran.stderr + ran.stdout).strip()[-200:])
    return ran.stdout


def run(*arguments: str, shows: str = "") -> None:
    def call() -> str:
        printed = admin(*arguments)
        wanted(shows in printed, f"does not show {shows}")
        return printed

    tried(" ".join(arguments[:2]), call)


run("show", "overview", shows="rabbitmq_version")
run("declare", "vhost", "name=conf-vhost")
run("list", "vhosts", shows="conf-vhost")
run("declare", "user", "name=conf-user", "password=secret", "tags=management")
run("list", "users", shows="conf-user")
run("declare", "permission", "vhost=conf-vhost", "user=conf-user", "configure=.*", "write=.*", "read=.*")
run("list", "permissions", shows="conf-user")
run("declare", "vhost_limit", "vhost=conf-vhost", "name=max-queues", "value=5")
run("list", "vhost_limits", shows="max-queues")
run("delete", "vhost_limit", "vhost=conf-vhost", "name=max-queues")
run("list", "nodes", shows="running")
run("declare", "exchange", "name=conf-exchange", "type=topic")
run("list", "exchanges", shows="conf-exchange")
run("declare", "queue", "name=conf-queue", "durable=true")
run("list", "queues", "name", "messages", shows="conf-queue")
run("declare", "binding", "source=conf-exchange", "destination=conf-queue", "routing_key=conf.key")
run("list", "bindings", shows="conf.key")
run("publish", "exchange=conf-exchange", "routing_key=conf.key", "payload=hello", shows="Message published")
run("get", "queue=conf-queue", "ackmode=ack_requeue_true", shows="hello")
run("purge", "queue", "name=conf-queue")
run(
    "delete",
    "binding",
    "source=conf-exchange",
    "destination_type=queue",
    "destination=conf-queue",
    "properties_key=conf.key",
)
run("declare", "policy", "name=conf-policy", "pattern=^conf", 'definition={"max-length":10}', "apply-to=queues")
run("list", "policies", shows="conf-policy")
run("delete", "policy", "name=conf-policy")
run(
    "declare", "operator_policy", "name=conf-policy", "pattern=^conf", 'definition={"max-length":10}', "apply-to=queues"
)
run("list", "operator_policies", shows="conf-policy")
run("delete", "operator_policy", "name=conf-policy")
run("list", "parameters")
run("list", "connections", shows="guest")
run("list", "channels", shows="guest")
run("list", "consumers", shows="rabbitmqadmin")
run("export", f"{folder}/definitions.json")
run("import", f"{folder}/definitions.json")
rows = json.loads(tried("-f raw_json list connections", lambda: admin("-f", "raw_json", "list", "connections")) or "[]")
name = next((row["name"] for row in rows), "none")
run("close", "connection", f"name={name}")
run("delete", "queue", "name=conf-queue")
run("delete", "exchange", "name=conf-exchange")
run("delete", "permission", "vhost=conf-vhost", "user=conf-user")
run("delete", "user", "name=conf-user")
run("delete", "vhost", "name=conf-vhost")
end()

"""Definitions in RabbitMQ's JSON: out of a broker, into one, and what is said of documents that cannot be imported."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from openclust.broker.amqp.connection import Connection
from openclust.broker.definitions.import_export import (
    Import,
    Report,
    export_definitions,
    export_vhost,
    import_definitions,
)
from openclust.broker.model.access import Permission, TopicPermission, User
from openclust.broker.model.changes import Bind, Change, DeclareExchange, DeclareQueue, PutUser
from openclust.broker.model.limits import Limits
from openclust.broker.model.peer import Peer
from openclust.broker.model.policy import Policy
from openclust.broker.server.broker import Broker
from openclust.broker.server.change_performer import perform
from openclust.broker.server.standalone import Standalone
from openclust.wire.errors import ChannelError
from tests.support.paths import RABBITMQ_DEFINITIONS

Document = dict[str, Any]

RABBIT_HASH = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"
SCRYPT_HASH = "scrypt$16384$8$1$AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


def new_broker(**limits: Any) -> Broker:
    return Broker(Limits(**limits), random_name=lambda: "random")


@pytest.fixture
def broker() -> Broker:
    return new_broker()


@pytest.fixture
def rabbit() -> Document:
    """What `rabbitmqctl export_definitions` of RabbitMQ 3.10 wrote."""
    text = (RABBITMQ_DEFINITIONS).read_text()
    document: Document = json.loads(text)
    return document


def queue(name: str = "orders", vhost: str = "/", **more: Any) -> Document:
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": {}, **more}


def exchange(name: str = "in", type: str = "topic", vhost: str = "/", **more: Any) -> Document:
    return {"name": name, "vhost": vhost, "type": type, "durable": True, "auto_delete": False, **more}


def binding(source: str = "in", destination: str = "orders", **more: Any) -> Document:
    entry = {"source": source, "vhost": "/", "destination": destination, "destination_type": "queue"}
    return {**entry, "routing_key": "a.#", "arguments": {}, **more}


def policy(name: str = "limits", **more: Any) -> Document:
    entry = {"vhost": "/", "name": name, "pattern": "^o", "apply-to": "queues", "definition": {"max-length": 5}}
    return {**entry, "priority": 0, **more}


def refused(broker: Broker, document: Document) -> list[str]:
    """The problems of a document that must change nothing."""
    before = export_definitions(broker)
    report = import_definitions(broker, document)
    assert export_definitions(broker) == before
    assert report.changed == 0
    return report.problems


# -- what RabbitMQ wrote


def test_an_export_of_rabbitmq_3_10_is_imported(broker: Broker, rabbit: Document) -> None:
    report = import_definitions(broker, rabbit)
    assert report.problems == []
    sales = broker.vhosts["sales"]
    assert sorted(sales.queues) == ["orders", "qq", "transient"]
    assert sales.queues["orders"].args.max_priority == 5
    assert sales.queues["qq"].args.queue_type == "quorum"
    assert sales.exchanges["in"].alternate == "dead"
    assert broker.vhosts["/"].queues["tasks"].auto_delete
    assert {each.routing_key for each in sales.exchanges["in"].bindings.values()} == {"order.#", "a", "tr"}
    assert broker.users["anna"].tags == ("monitoring", "policymaker")
    assert broker.users["anna"].permissions == {"sales": Permission("^a", ".*", ".*")}
    assert broker.users["anna"].password_hash.startswith("rabbit_sha256$")


def test_the_lists_of_pairs_that_rabbitmqctl_writes_are_mappings(broker: Broker, rabbit: Document) -> None:
    assert rabbit["parameters"][0]["value"]["definition"] == [["max-length", 50000]]
    import_definitions(broker, rabbit)
    assert broker.vhosts["/"].queues["tasks"].settings.max_length == 50000
    assert broker.vhosts["sales"].queues["orders"].settings.overflow == "reject-publish"


def test_what_has_no_counterpart_here_is_named(broker: Broker, rabbit: Document) -> None:
    shovel = {"component": "shovel", "name": "s", "value": {}, "vhost": "sales"}
    rabbit["parameters"].append(shovel)
    assert import_definitions(broker, rabbit).ignored == [
        "parameters[2] 's' in vhost 'sales': parameters of the component 'shovel' are not supported"
    ]


def test_topic_permissions_limits_and_parameters_of_rabbitmq_hold(broker: Broker, rabbit: Document) -> None:
    assert import_definitions(broker, rabbit).ignored == []
    anna = broker.users["anna"]
    assert anna.topic_permissions == {"sales": {"amq.topic": TopicPermission("^x", "^y")}}
    assert anna.limits == {"max-channels": 10}
    assert broker.parameters.limit("sales", "max-queues") == 100
    assert broker.parameters.global_values == {"site": '[["a",1]]'}
    assert broker.vhosts["sales"].metadata["default_queue_type"] == "quorum"
    assert broker.vhosts["/"].metadata["description"] == "Default virtual host"


def test_what_was_exported_comes_back_whole(broker: Broker, rabbit: Document) -> None:
    import_definitions(broker, rabbit)
    document = export_definitions(broker)
    other = new_broker()
    assert import_definitions(other, document).problems == []
    assert export_definitions(other) == document
    again = import_definitions(other, document)
    assert (again.changed, again.ignored) == (0, [])


def test_one_virtual_host_is_copied_into_another(broker: Broker, rabbit: Document) -> None:
    import_definitions(broker, rabbit)
    document = export_vhost(broker.vhosts["sales"], broker)
    assert not {"users", "vhosts", "permissions", "global_parameters"} & document.keys()
    broker.put_vhost("copy")
    one = Import(broker, {**document, "users": []}, vhost="copy")
    one.run()
    assert (one.report().problems, one.report().ignored) == ([], ["users: not a part of vhost 'copy'"])
    copy = export_vhost(broker.vhosts["copy"], broker)
    for section in ("queues", "exchanges", "bindings"):
        assert copy[section] == document[section] != []
    assert broker.parameters.limit("copy", "max-queues") == 100


@pytest.mark.parametrize(
    ("section", "entry", "problem"),
    [
        ("users", {"name": "a", "limits": {"max-queues": 1}}, "unrecognised limit 'max-queues'"),
        ("vhosts", {"name": "v", "limits": {"max-channels": 1}}, "unrecognised limit 'max-channels'"),
        ("vhosts", {"name": "v", "default_queue_type": "stream"}, "classic or quorum, not 'stream'"),
        (
            "topic_permissions",
            {"user": "nobody", "vhost": "/", "exchange": "e", "write": "", "read": ""},
            "no user 'nobody'",
        ),
        (
            "topic_permissions",
            {"user": "guest", "vhost": "/", "exchange": "e", "write": "(", "read": ""},
            "the write pattern '(' is no regular expression",
        ),
        (
            "parameters",
            {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {"max-queues": "x"}},
            "should be a number",
        ),
        ("global_parameters", {"name": "", "value": 1}, "the name of a parameter must not be empty"),
    ],
)
def test_wrong_limits_topics_and_parameters_are_problems(
    broker: Broker, section: str, entry: Document, problem: str
) -> None:
    broker.put_user(User(name="guest"))
    report = import_definitions(broker, {section: [entry]})
    assert problem in report.problems[0] and report.changed == 0


def test_an_export_of_rabbitmq_4_is_imported(broker: Broker) -> None:
    document = {
        "rabbit_version": "4.0.5",
        "rabbitmq_version": "4.0.5",
        "product_name": "RabbitMQ",
        "product_version": "4.0.5",
        "rabbitmq_definition_format": "cluster",
        "original_cluster_name": "rabbit@host",
        "explanation": "Definitions of cluster 'rabbit@host'",
        "users": [
            {
                "name": "u",
                "password_hash": RABBIT_HASH,
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": ["administrator"],
                "limits": {},
            }
        ],
        "vhosts": [
            {
                "name": "v",
                "description": "",
                "tags": [],
                "default_queue_type": "classic",
                "metadata": {"description": "", "tags": [], "default_queue_type": "classic"},
            }
        ],
        "permissions": [],
        "topic_permissions": [],
        "parameters": [],
        "global_parameters": [{"name": "cluster_tags", "value": []}],
        "policies": [policy("a", **{"apply-to": "classic_queues"}), policy("b", **{"apply-to": "streams"})],
        "queues": [queue(type="quorum", arguments={}), queue("c", "v", arguments={"x-queue-type": "classic"})],
        "exchanges": [],
        "bindings": [],
    }
    report = import_definitions(broker, document)
    assert report.problems == []
    assert broker.vhosts["/"].queues["orders"].args.queue_type == "quorum"
    assert report.ignored == ["policies[1] 'b' in vhost '/': applies to streams, of which there are none here"]


# -- round trips


def test_what_was_exported_is_the_same_after_an_import(broker: Broker, rabbit: Document) -> None:
    import_definitions(broker, rabbit)
    document = json.loads(json.dumps(export_definitions(broker)))
    other = new_broker()
    assert import_definitions(other, document).problems == []
    assert export_definitions(other) == document


def test_importing_again_changes_nothing(broker: Broker, rabbit: Document) -> None:
    first = import_definitions(broker, rabbit)
    again = import_definitions(broker, rabbit)
    assert (again.changed, again.problems) == (0, [])
    assert again.unchanged == first.changed + first.unchanged


def test_only_what_lasts_is_exported(broker: Broker) -> None:
    vhost = broker.vhosts["/"]
    connection = Connection(broker, Peer("127.0.0.1", 1, True))
    connection.vhost = vhost
    changes: list[Change] = [
        DeclareQueue(vhost="/", name="durable"),
        DeclareQueue(vhost="/", name="transient", durable=False),
        DeclareExchange(vhost="/", name="x", type="direct"),
        DeclareExchange(vhost="/", name="y", type="direct", durable=False),
        *(Bind(vhost="/", source=x, destination=q) for x in ("x", "y", "amq.topic") for q in ("durable", "transient")),
        Bind(vhost="/", source="x", destination="y", to_exchange=True),
    ]
    for change in changes:
        perform(broker, change)
    vhost.declare_queue(DeclareQueue(vhost="/", name="own"), connection)
    vhost.bind(Bind(vhost="/", source="x", destination="own"))
    document = export_definitions(broker)
    assert [entry["name"] for entry in document["queues"]] == ["durable"]
    assert [entry["name"] for entry in document["exchanges"]] == ["x"]
    assert [(each["source"], each["destination"]) for each in document["bindings"]] == [
        ("amq.topic", "durable"),
        ("x", "durable"),
    ]


def test_the_order_of_an_export_does_not_tell_what_was_first(broker: Broker) -> None:
    other = new_broker()
    for each, names in ((broker, "abc"), (other, "cba")):
        for name in names:
            perform(each, DeclareQueue(vhost="/", name=name))
            perform(each, Bind(vhost="/", source="amq.fanout", destination=name))
            each.put_user(User(name=name))
    assert json.dumps(export_definitions(broker)) == json.dumps(export_definitions(other))


def test_what_json_cannot_say_is_left_out_and_named(broker: Broker) -> None:
    perform(broker, DeclareQueue(vhost="/", name="caf\udce9"))
    perform(broker, DeclareQueue(vhost="/", name="good", arguments={"x-n": float("nan")}))
    document = export_definitions(broker)
    assert document["queues"] == []
    assert document["openclust_left_out"] == [
        "'caf?' in vhost '/': a name or an argument is not UTF-8",
        "'good' in vhost '/': an argument is not a finite number",
    ]
    json.dumps(document).encode()
    assert import_definitions(new_broker(), document).problems == []


@pytest.mark.parametrize(
    ("ours", "algorithm"),
    [
        (f"rabbit_sha256${RABBIT_HASH}", "rabbit_password_hashing_sha256"),
        (SCRYPT_HASH, "scrypt"),
        ("", "rabbit_password_hashing_sha256"),
    ],
)
def test_password_hashes_go_out_and_come_back(broker: Broker, ours: str, algorithm: str) -> None:
    perform(broker, PutUser(user=User(name="u", password_hash=ours, type="console", tags=("management",))))
    document = export_definitions(broker)
    entry = document["users"][0]
    assert entry["hashing_algorithm"] == algorithm
    assert "$" not in entry["password_hash"]  # RabbitMQ refuses a whole import over what is not base64
    other = new_broker()
    import_definitions(other, document)
    assert other.users == broker.users


def test_a_user_keeps_the_permissions_that_the_document_does_not_name(broker: Broker) -> None:
    broker.put_user(User(name="u", permissions={"/": Permission("a", "b", "c")}))
    import_definitions(broker, {"users": [{"name": "u", "password_hash": RABBIT_HASH, "tags": ""}]})
    assert broker.users["u"].permissions == {"/": Permission("a", "b", "c")}


def test_an_empty_pattern_permits_nothing(broker: Broker) -> None:
    entry = {"user": "u", "vhost": "/", "configure": "", "write": "", "read": ""}
    import_definitions(broker, {"users": [{"name": "u"}], "permissions": [entry]})
    assert broker.users["u"].permissions == {"/": Permission("^$", "^$", "^$")}
    assert not broker.users["u"].may("read", "/", "orders")


# -- what is refused


CASES: list[tuple[str, Document, str]] = [
    (
        "a missing key",
        {"queues": [queue(), {"name": "x", "durable": True}]},
        "queues[1] 'x': object missing required field `vhost`",
    ),
    ("a wrong type", {"queues": [queue(durable="yes")]}, "queues[0] 'orders' in vhost '/': expected `bool`, got `str`"),
    ("no object", {"exchanges": [1]}, "exchanges[0]: expected `object`, got `int`"),
    ("no list", {"queues": {}}, "queues: expected a list, got dict"),
    (
        "an unknown exchange type",
        {"exchanges": [exchange(type="x-random")]},
        "exchanges[0] 'in' in vhost '/': unknown exchange type 'x-random' (there are direct, fanout, headers, topic)",
    ),
    (
        "a bad argument",
        {"queues": [queue(arguments={"x-max-length": -1})]},
        "queues[0] 'orders' in vhost '/': invalid arg 'x-max-length': -1 is out of range",
    ),
    (
        "a stream",
        {"queues": [queue(type="stream")]},
        "queues[0] 'orders' in vhost '/': invalid arg 'x-queue-type': 'stream' is unknown",
    ),
    (
        "a quorum queue that is not durable",
        {"queues": [queue(durable=False, arguments={"x-queue-type": "quorum"})]},
        "queues[0] 'orders' in vhost '/': invalid property 'non-durable'",
    ),
    (
        "an argument that AMQP cannot say",
        {"queues": [queue(arguments={"x-n": 2**70})]},
        "queues[0] 'orders' in vhost '/': arguments:",
    ),
    (
        "arguments too deep",
        {"queues": [queue(arguments={"x-n": json.loads("[" * 100 + "]" * 100)})]},
        "queues[0] 'orders' in vhost '/': arguments: a field table nests deeper than 64",
    ),
    ("a name too long", {"queues": [queue("é" * 128)]}, "queues[0] '" + "é" * 97 + "...' in vhost '/': the name of"),
    ("no virtual host", {"queues": [queue(vhost="none")]}, "queues[0] 'orders' in vhost 'none': no vhost 'none'"),
    (
        "a binding of nothing",
        {"queues": [queue()], "bindings": [binding()]},
        "bindings[0] 'in -> orders' in vhost '/': no exchange 'in', neither in the document nor in the broker",
    ),
    (
        "a binding to nothing",
        {"exchanges": [exchange()], "bindings": [binding()]},
        "bindings[0] 'in -> orders' in vhost '/': no queue 'orders'",
    ),
    (
        "a binding with a bad x-match",
        {"queues": [queue()], "bindings": [binding("amq.headers", arguments={"x-match": "some"})]},
        "bindings[0] 'amq.headers -> orders' in vhost '/': Invalid x-match field value 'some'",
    ),
    (
        "a permission pattern",
        {
            "users": [{"name": "u"}],
            "permissions": [{"user": "u", "vhost": "/", "configure": "(", "write": "", "read": ""}],
        },
        "permissions[0] 'u' in vhost '/': the configure pattern '(' is no regular expression",
    ),
    (
        "a permission of nobody",
        {"permissions": [{"user": "u", "vhost": "/", "configure": "", "write": "", "read": ""}]},
        "permissions[0] 'u' in vhost '/': no user 'u', neither in the document nor in the broker",
    ),
    (
        "a policy pattern",
        {"policies": [policy(pattern="(")]},
        "policies[0] 'limits' in vhost '/': pattern '(' is not a regular expression",
    ),
    (
        "a policy key",
        {"policies": [policy(definition={"max-lenght": 1})]},
        "policies[0] 'limits' in vhost '/': max-lenght is no policy key, did you mean max-length?",
    ),
    (
        "an operator policy",
        {
            "parameters": [
                {
                    "component": "operator_policy",
                    "vhost": "/",
                    "name": "cap",
                    "value": {"pattern": "", "definition": {"dead-letter-exchange": "x"}},
                }
            ]
        },
        "parameters[0] 'cap' in vhost '/': dead-letter-exchange cannot be set by an operator policy",
    ),
    (
        "a hash",
        {"users": [{"name": "u", "password_hash": "??"}]},
        "users[0] 'u': password_hash: the hash is not",
    ),
    ("a password", {"users": [{"name": "u", "password": "x"}]}, "users[0] 'u': a password in plain text is not taken"),
    (
        "the broker's names",
        {"exchanges": [exchange("amq.mine")]},
        "exchanges[0] 'amq.mine' in vhost '/': the names of exchanges that begin with amq.",
    ),
    (
        "something twice",
        {"queues": [queue(), queue(arguments={"x-max-length": 1})]},
        "queues[1] 'orders' in vhost '/': is there twice, and differs from queues[0] 'orders' in vhost '/'",
    ),
]


@pytest.mark.parametrize(("document", "problem"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_a_wrong_document_changes_nothing_and_names_the_place(broker: Broker, document: Document, problem: str) -> None:
    problems = refused(broker, {"vhosts": [{"name": "new"}], **document})
    assert len(problems) == 1
    assert problems[0].startswith(problem)


def test_all_problems_are_told_at_once(broker: Broker) -> None:
    document = {"queues": [queue(durable=1), queue(vhost="none")], "bindings": [binding()]}
    assert [text.partition(" ")[0] for text in refused(broker, document)] == ["queues[0]", "queues[1]", "bindings[0]"]


def test_the_list_of_problems_is_bounded(broker: Broker) -> None:
    problems = refused(broker, {"queues": [{}] * 5_000})
    assert len(problems) == 1_001
    assert problems[-1] == "and 4000 more"


def test_what_is_there_and_differs_is_named_with_its_argument(broker: Broker) -> None:
    perform(broker, DeclareQueue(vhost="/", name="orders", arguments={"x-max-length": 5}))
    perform(broker, DeclareExchange(vhost="/", name="in", type="fanout"))
    document = {
        "queues": [queue(arguments={"x-max-length": 6}), queue("orders", durable=False)],
        "exchanges": [exchange()],
    }
    assert refused(broker, document) == [
        "exchanges[0] 'in' in vhost '/': inequivalent arg 'type': received 'topic' but current is 'fanout'",
        "queues[0] 'orders' in vhost '/': inequivalent arg 'x-max-length': received '6' but current is '5'",
        "queues[1] 'orders' in vhost '/': inequivalent arg 'durable': received 'false' but current is 'true'",
    ]


def test_a_document_that_passes_the_limits_is_refused_before_anything_changes() -> None:
    broker = new_broker(queues_max=2, bindings_max=1)
    document = {"queues": [queue(name) for name in "abc"], "bindings": [binding("amq.topic", name) for name in "ab"]}
    assert refused(broker, document) == [
        "queues: 3 more than the 0 there are would pass limits.queues_max (2)",
        "bindings: 2 more than the 0 there are would pass limits.bindings_max (1)",
    ]


def test_what_has_a_problem_can_be_left_out_with_all_that_needs_it(broker: Broker) -> None:
    document = {
        "queues": [queue(), queue("log", arguments={"x-queue-type": "stream"}), queue("orders", auto_delete=True)],
        "exchanges": [exchange()],
        "bindings": [binding(), binding(destination="log")],
        "policies": [policy(), policy("wrong", pattern="(")],
    }
    one = Import(broker, document, skip_problems=True)
    assert one.run()
    report = one.report()
    assert [problem.partition(": ")[0] for problem in report.problems] == [
        "policies[1] 'wrong' in vhost '/'",
        "queues[1] 'log' in vhost '/'",
        "queues[2] 'orders' in vhost '/'",
        "bindings[1] 'in -> log' in vhost '/'",
    ]
    assert report.changed == 4
    vhost = broker.vhosts["/"]
    assert list(vhost.queues) == ["orders"] and not vhost.queues["orders"].auto_delete
    assert len(vhost.exchanges["in"].bindings) == 1


def test_what_passes_the_limits_can_be_left_out() -> None:
    broker = new_broker(queues_max=2)
    one = Import(broker, {"queues": [queue("a"), queue("b"), queue("c")]}, skip_problems=True)
    one.run()
    assert one.report().changed == 2
    assert [problem.partition(": ")[0] for problem in one.report().problems] == ["queues[2] 'c' in vhost '/'"]


def test_an_unknown_key_is_ignored_and_named(broker: Broker) -> None:
    report = import_definitions(broker, {"queues": [queue(colour="red")], "quotas": []})
    assert report == Report(
        1,
        0,
        [],
        [
            "quotas: not a section that this broker knows",
            "queues[0] 'orders' in vhost '/': the key 'colour' is unknown",
        ],
    )


def test_a_policy_key_without_effect_is_named(broker: Broker) -> None:
    report = import_definitions(broker, {"policies": [policy(definition={"ha-mode": "all", "max-length": 1})]})
    assert report.ignored == ["policies[0] 'limits' in vhost '/': ha-mode: taken, and without effect here"]


def test_predeclared_exchanges_of_a_new_virtual_host_can_be_bound(broker: Broker) -> None:
    document = {
        "vhosts": [{"name": "new"}],
        "queues": [queue(vhost="new")],
        "bindings": [binding("amq.topic", vhost="new")],
    }
    assert import_definitions(broker, document).problems == []
    assert len(broker.vhosts["new"].exchanges["amq.topic"].bindings) == 1


# -- through the cluster


class Ordering(Standalone):
    """A cluster that answers later, in order, and refuses what it is told to."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.broker = broker
        self.asked: list[tuple[Change, Callable[[Any], None]]] = []

    def define(self, change: Change, done: Callable[[Any], None]) -> None:
        self.asked.append((change, done))

    def answer(self, refuse: int | None = None) -> None:
        asked, self.asked = self.asked, []
        for number, (change, done) in enumerate(asked):
            if number == refuse:
                done(ChannelError(506, "too much"))
            else:
                done(perform(self.broker, change))


def test_an_import_is_finished_when_the_cluster_has_answered(broker: Broker, rabbit: Document) -> None:
    broker.cluster = ordering = Ordering(broker)
    one = Import(broker, rabbit)
    finished: list[bool] = []
    one.on_finished = lambda: finished.append(True)
    while not one.run(at_most=3):
        assert not finished
        ordering.answer()
    assert not one.finished and not finished
    ordering.answer()
    assert one.finished and finished == [True]
    assert one.users == {"anna", "guest", "nopw"}
    assert one.report().problems == []


def test_a_refusal_by_the_cluster_names_the_place(broker: Broker) -> None:
    broker.cluster = ordering = Ordering(broker)
    one = Import(broker, {"queues": [queue("a"), queue("b")]})
    one.run()
    ordering.answer(refuse=1)
    assert one.report() == Report(1, 0, ["queues[1] 'b' in vhost '/': too much"], [])


def test_what_an_import_needs_is_asked_for_first(broker: Broker, rabbit: Document) -> None:
    broker.cluster = ordering = Ordering(broker)
    Import(broker, rabbit).run()
    kinds = list(dict.fromkeys(type(change).__name__ for change, _ in ordering.asked))
    assert kinds == [
        "PutUser",
        "PutVhost",
        "PutParameter",
        "PutPermission",
        "PutTopicPermission",
        "PutPolicy",
        "PutGlobalParameter",
        "DeclareExchange",
        "DeclareQueue",
        "Bind",
    ]


def test_an_operator_policy_comes_back_as_one(broker: Broker) -> None:
    one = Policy(vhost="/", name="cap", pattern=".*", definition={"max-length": 9}, apply_to="queues", priority=3)
    broker.put_policy(one, operator=True)
    other = new_broker()
    import_definitions(other, export_definitions(broker))
    assert other.policies.list(operator=True) == [one]
    assert other.policies.list() == []

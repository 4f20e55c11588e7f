"""Moving clients: which of them, how many, and what they are told."""

from __future__ import annotations

from openclust.broker.amqp.placement import PROXIED
from openclust.broker.model.access import User
from openclust.broker.server.broker import Broker
from openclust.cluster.placing.moving import Moved, Moving
from openclust.cluster.placing.placing import Placing
from openclust.cluster.placing.rebalance import SETTLE_MS
from openclust.cluster.protocol.redirect import Redirect
from openclust.cluster.protocol.roster import BrokerInfo, Roster
from openclust.wire.table import Table
from tests.support.client import EVERYTHING, START_MS, Client, new_broker
from tests.support.driver import turn

FOLLOWS = ("connection.redirect",)


class House:
    """Broker a and its clients; b has none."""

    def __init__(self, others: int = 0, draining: bool = False, root: str = "b", **settings: object) -> None:
        self.root = root
        self.broker: Broker = new_broker()
        self.broker.put_user(User(name="watcher", type="console", permissions={"/": EVERYTHING}))
        self.clients: list[Client] = []
        self.others = others
        self.draining = draining
        self.now_ms = START_MS
        self._placing = Placing("a", "key", Redirect(**settings))  # type: ignore[arg-type]
        self._moving = Moving(self.broker, "a", self._placing)

    def come(self, count: int, *, user: str = "guest", properties: Table | None = None, follows: bool = True) -> None:
        for _ in range(count):
            capabilities = FOLLOWS if follows else ()
            self.clients.append(Client(self.broker, user, capabilities=capabilities, properties=properties))

    def round(self) -> Moved:
        at = Roster(
            root=self.root,
            brokers=(
                BrokerInfo(name="a", client="a:1", connections=len(self.clients), is_draining=self.draining),
                BrokerInfo(name="b", client="b:1", tls="b:2", connections=self.others),
            ),
        )
        moved = self._moving.round(at, self.staying(), self.now_ms, is_draining=self.draining)
        turn(self.broker)
        self.now_ms += 1_000
        return moved

    def settle(self) -> None:
        while self.now_ms < START_MS + SETTLE_MS:
            assert self.round().count == 0

    def staying(self) -> int:
        return sum(each.closed is None for each in self.clients)

    def moved(self) -> list[int]:
        """Who was told to go, by its number in the order in which they came."""
        return [number for number, each in enumerate(self.clients) if each.closed is not None]


def test_the_youngest_go_and_are_told_where_to() -> None:
    house = House(others=2)
    house.come(8)
    house.settle()
    assert house.round() == Moved(3, "rebalancing")
    assert house.moved() == [5, 6, 7]
    closed = house.clients[7].closed
    assert closed is not None
    assert (closed.code, closed.text) == (320, "CONNECTION_FORCED - moved to b:1 (rebalancing)")


def test_no_more_go_in_a_round_than_may() -> None:
    house = House(rebalance_per_s=2)
    house.come(20)
    house.settle()
    assert house.round().count == 2
    assert house.round().count == 2


def test_consoles_and_who_insists_or_is_proxied_are_not_moved() -> None:
    house = House()
    house.come(6)
    house.come(1, user="watcher")
    house.come(1, properties={PROXIED: True})
    house.come(1)
    house.clients[-1].connection.stays = True
    house.settle()
    assert house.round().count == 4
    assert house.moved() == [2, 3, 4, 5]


def test_who_could_not_be_redirected_is_not_closed_for_nothing() -> None:
    house = House()
    house.come(10, follows=False)
    house.settle()
    assert house.round().count == 0


def test_where_the_operator_lets_them_be_closed_they_are_moved() -> None:
    house = House(fallback="close")
    house.come(10, follows=False)
    house.settle()
    assert house.round().count == 5


def test_nobody_is_moved_who_would_be_sent_back() -> None:
    house = House(threshold=4)
    house.come(10)
    house.settle()
    assert house.round().count == 3, "a fourth would stay, with six here and three there"


def test_a_dry_run_moves_nobody() -> None:
    house = House(rebalance_dry_run=True)
    house.come(10)
    house.settle()
    assert house.round() == Moved(5, "rebalancing", is_dry=True)
    assert house.moved() == []


# -- a broker that is emptied


def test_a_drained_broker_sends_its_clients_away_at_its_rate() -> None:
    house = House(draining=True, drain_per_s=3)
    house.come(7)
    assert house.round() == Moved(3, "draining")
    assert house.moved() == [4, 5, 6]
    assert [house.round().count for _ in range(3)] == [3, 1, 0]
    closed = house.clients[0].closed
    assert closed is not None and closed.text == "CONNECTION_FORCED - moved to b:1 (draining)"


def test_all_that_do_not_insist_leave_a_drained_broker() -> None:
    house = House(draining=True)
    house.come(1, follows=False)
    house.come(1, properties={PROXIED: True})
    house.come(1, user="watcher")
    house.come(1)
    house.clients[-1].connection.stays = True
    assert house.round().count == 2
    assert house.moved() == [0, 1]


def test_those_who_leave_at_once_are_spread() -> None:
    house = House()
    house.come(6)
    brokers = (
        BrokerInfo(name="a", client="a:1", connections=6, is_draining=True),
        BrokerInfo(name="b", client="b:1", connections=2),
        BrokerInfo(name="c", client="c:1"),
    )
    moving = Moving(house.broker, "a", Placing("a", "key", Redirect()))
    assert moving.round(Roster(root="b", brokers=brokers), 6, START_MS, is_draining=True).count == 6
    turn(house.broker)
    told = [each.closed.text for each in house.clients if each.closed is not None]
    assert sum("moved to b:1" in text for text in told) == 2
    assert sum("moved to c:1" in text for text in told) == 4


def test_who_came_by_tls_is_told_where_tls_is() -> None:
    house = House(draining=True)
    house.clients.append(Client(house.broker, is_tls=True))
    house.round()
    closed = house.clients[0].closed
    assert closed is not None and "moved to b:2" in closed.text


def test_where_nobody_else_is_nobody_is_sent_away() -> None:
    house = House(draining=True)
    house.come(3)
    alone = Roster(root="a", brokers=(BrokerInfo(name="a", client="a:1", is_draining=True),))
    moving = Moving(house.broker, "a", Placing("a", "key", Redirect()))
    assert moving.round(alone, 3, START_MS, is_draining=True).count == 0


def test_who_asked_for_the_root_goes_with_it() -> None:
    house = House()
    house.come(2, properties={"connect_to": "root"})
    assert house.round() == Moved(2, "rebalancing")
    assert house.moved() == [0, 1] and "moved to b:1" in str(house.clients[0].closed)


def test_who_asked_for_the_root_and_has_it_is_never_surplus() -> None:
    house = House(root="a", rebalance_threshold=0.0)
    house.come(20, properties={"connect_to": "root"})
    house.settle()
    assert house.round().count == 0 and house.moved() == []

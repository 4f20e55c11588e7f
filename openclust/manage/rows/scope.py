"""Which objects of this broker somebody may see."""

from __future__ import annotations

from openclust.broker.server.broker import Broker
from openclust.broker.server.vhost import VirtualHost
from openclust.manage.gather.questions import Viewer


def vhosts_seen(broker: Broker, viewer: Viewer, vhost: str | None) -> list[VirtualHost]:
    """The virtual hosts that the viewer may see: the one named, or all."""
    found = [broker.vhosts[vhost]] if vhost in broker.vhosts else [] if vhost is not None else broker.vhosts.values()
    return [each for each in found if viewer.sees(each.name)]

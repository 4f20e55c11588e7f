"""Who is root, as far as this broker knows, and the role that this broker itself has at the moment."""

from __future__ import annotations

from typing import Generic, TypeVar

from openclust.cluster.protocol.status import Reign

Role_co = TypeVar("Role_co", covariant=True)


class Leadership(Generic[Role_co]):
    """One object for all parts of a membership; `Membership.become` writes it, and nobody else.

    All is read as attributes, for some of it is asked for with each message. A part that calls methods of the role says
    which by the parameter, a protocol in its own file: `Leadership[ForwardingRole]`. Others take `Leadership[object]`.
    """

    __slots__ = ("epoch", "is_root", "reign", "role", "root")

    role: Role_co

    def __init__(self) -> None:
        self.lead(None, is_root=False)

    def lead(self, reign: Reign | None, *, is_root: bool) -> None:
        """This reign has begun; None where there is no root. `is_root`: it is this broker's own."""
        self.reign = reign
        self.is_root = is_root
        # The root's name, empty where there is none; and the number of its reign, 0 where there is none.
        self.root = reign.root if reign is not None else ""
        self.epoch = reign.epoch if reign is not None else 0

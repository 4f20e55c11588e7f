"""Hypothesis strategies for what goes over the wire: field tables, methods, properties and frames."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from openclust.wire import methods
from openclust.wire.frames import FRAME_BODY, FRAME_HEADER, FRAME_METHOD, HEARTBEAT, frame
from openclust.wire.methods import Method
from openclust.wire.properties import Properties
from openclust.wire.table import Timestamp
from tests.support.examples import examples

PROPERTY_TEST = examples(25)

SMALL_PROPERTY_TEST = examples(5)
"""For what is asked of each of sixty-seven methods."""

METHODS: list[type[Method]] = sorted(
    (each for each in vars(methods).values() if isinstance(each, type) and issubclass(each, Method) and each.ID[0]),
    key=lambda method: method.ID,
)


def texts(max_bytes: int = 40) -> st.SearchStrategy[str]:
    """Any bytes, as our decoder shows them: text where they are UTF-8, lone surrogates where not."""
    some_bytes = st.binary(max_size=max_bytes).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
    return st.one_of(st.text(max_size=max_bytes // 4), some_bytes)


def plain_texts(max_bytes: int = 40) -> st.SearchStrategy[str]:
    """What every codec can say: well-formed text."""
    return st.text(st.characters(exclude_categories=["Cs"]), max_size=max_bytes // 4)


decimals = st.builds(
    lambda digits, scale: Decimal(digits).scaleb(-scale), st.integers(0, 2**32 - 1), st.integers(0, 255)
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    texts(),
    st.binary(max_size=20),
    decimals,
    st.integers(0, 2**64 - 1).map(Timestamp),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts(20), inner, max_size=4),
    max_leaves=12,
)
tables = st.dictionaries(texts(20), values, max_size=5)

_ARGUMENTS: dict[str, st.SearchStrategy[object]] = {
    "Octet": st.integers(0, 2**8 - 1),
    "Short": st.integers(0, 2**16 - 1),
    "Long": st.integers(0, 2**32 - 1),
    "LongLong": st.integers(0, 2**64 - 1),
    "ShortStr": texts(255),
    "LongStr": st.binary(max_size=300),
    "Bit": st.booleans(),
    "FieldTable": tables,
}


def kinds_of(method: type[Method]) -> dict[str, str]:
    """Each argument's name and how the specification types it."""
    return {name: method.__annotations__[name] for name in method.__struct_fields__}


def instances(method: type[Method]) -> st.SearchStrategy[Method]:
    """That method, with any arguments."""
    arguments = {name: _ARGUMENTS[kind] for name, kind in kinds_of(method).items()}
    return st.fixed_dictionaries(arguments).map(lambda given: method(**given))


any_method: st.SearchStrategy[Method] = st.sampled_from(METHODS).flatmap(instances)

_short_texts = (
    "content_type",
    "content_encoding",
    "correlation_id",
    "reply_to",
    "expiration",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)
_properties: dict[str, st.SearchStrategy[Any]] = {
    "headers": tables,
    "delivery_mode": st.integers(0, 255),
    "priority": st.integers(0, 255),
    "timestamp": st.integers(0, 2**64 - 1).map(Timestamp),
    **dict.fromkeys(_short_texts, texts(60)),
}
properties = st.fixed_dictionaries({}, optional=_properties).map(lambda given: Properties(**given))

_channels = st.integers(0, 2**16 - 1)
any_frame: st.SearchStrategy[bytes] = st.one_of(
    st.builds(
        frame,
        st.sampled_from((FRAME_METHOD, FRAME_HEADER, FRAME_BODY)),
        _channels,
        st.binary(max_size=60),
    ),
    st.just(HEARTBEAT),
)

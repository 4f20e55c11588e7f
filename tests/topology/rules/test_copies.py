"""Files that are given together: copies of one, and other clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.topology.files import FOURTH, SOUND
from topology.lint.check import check_all
from topology.rules.finding import Finding, Severity

ERROR, WARNING = Severity.ERROR, Severity.WARNING


def beside(tmp_path: Path, *texts: str) -> list[Finding]:
    """What is found in the first of these files, in the presence of the others."""
    paths = [tmp_path / f"{name}.toml" for name in "abcdef"[: len(texts)]]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    return [
        each for each in check_all(paths)[0][0].findings if each.code in ("OC101", "OC103", "OC108", "OC211", "OC704")
    ]


def changed(old: str, new: str) -> str:
    assert old in SOUND
    return SOUND.replace(old, new)


@pytest.mark.parametrize(
    ("other", "severity", "said"),
    [
        (SOUND + FOURTH, ERROR, "the list of primaries is p1, p2 and p3 here, and p1, p2, p3 and p4 in"),
        (
            changed("primaries.p3", "primaries.p9"),
            ERROR,
            "the list of primaries is p1, p2 and p3 here, and p1, p2 and p9",
        ),
        (changed("heartbeat_ms = 100", "heartbeat_ms = 200"), ERROR, "cluster.heartbeat_ms is 100 here, and 200 in"),
        (changed("heartbeat_ms = 100\n", "heartbeat_ms = 100\nroot_wait_ms = 5\n"), WARNING, "cluster.root_wait_ms is"),
        (
            changed("10.0.3.1:5682", "10.0.3.9:5682"),
            ERROR,
            "the peer address of p3 is 10.0.3.1:5682 here, and 10.0.3.9:",
        ),
        (
            changed("10.0.3.1:5672", "10.0.3.1:5673"),
            ERROR,
            "the client address of p3 is 10.0.3.1:5672 here, and 10.0.3.1",
        ),
        (
            changed('peer = "10.0.1.1:5682"', 'peer = "10.0.1.1:5682"\nhttp = "10.0.1.1:1"'),
            ERROR,
            "the http address of p1",
        ),
        (
            SOUND + "[topology.settings.p2]\ncluster.heartbeat_ms = 300\n",
            ERROR,
            "cluster.heartbeat_ms is 100 here, and 300",
        ),
    ],
)
def test_copies_that_have_drifted_apart_are_told(tmp_path: Path, other: str, severity: Severity, said: str) -> None:
    (finding,) = beside(tmp_path, SOUND, other)
    assert (finding.code, finding.severity) == ("OC108", severity)
    assert finding.message.startswith(said) and finding.message.endswith(f"in {tmp_path}/b.toml")
    assert finding.line


def test_copies_that_say_the_same_in_other_words_are_clean(tmp_path: Path) -> None:
    own = SOUND.replace("[cluster]\n", '[listen]\nbacklog = 5\n[cluster]\ndata_dir = "/var/p1"\n', 1)
    assert beside(tmp_path, SOUND, own, SOUND + "[topology]\nclients = 5\n") == []


def test_secrets_that_differ_are_told_and_not_shown(tmp_path: Path) -> None:
    one, other = (changed('secret_file = "cluster.secret"', f'secret = "{word}"') for word in ("hush", "mum"))
    (finding,) = beside(tmp_path, one, other)
    assert finding.message.startswith("cluster.secret is one here, and another in")


def test_many_copies_that_differ_alike_are_one_finding(tmp_path: Path) -> None:
    slow = changed("heartbeat_ms = 100", "heartbeat_ms = 200")
    (finding,) = beside(tmp_path, SOUND, slow, slow, slow)
    assert finding.message.endswith(f"in {tmp_path}/b.toml; likewise {tmp_path}/c.toml; {tmp_path}/d.toml")


def test_two_clusters_with_keys_of_their_own_at_one_address_are_told(tmp_path: Path) -> None:
    (finding,) = beside(tmp_path, SOUND, changed("orders-eu", "orders-us"))
    assert (finding.code, finding.severity) == ("OC211", ERROR)
    assert finding.message.startswith(
        f"p1: its client address 10.0.1.1:5672 is the client address of p1 in {tmp_path}/b.toml, of the cluster "
        "'orders-us'; likewise the peer address of p1; "
    )


def test_two_clusters_apart_are_clean(tmp_path: Path) -> None:
    assert beside(tmp_path, SOUND, changed("10.0.", "10.9.").replace("orders-eu", "orders-us")) == []


def test_a_copy_that_cannot_be_used_is_held_against_nothing(tmp_path: Path) -> None:
    assert beside(tmp_path, SOUND, "nonsense") == []

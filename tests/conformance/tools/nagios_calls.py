"""Debian's nagios-plugins-rabbitmq: every check, which is right if it ends with 0, 1 or 2 and not with 3 (unknown)."""

from __future__ import annotations

import json
import subprocess
from urllib.request import HTTPBasicAuthHandler, HTTPPasswordMgrWithDefaultRealm, build_opener

from tally import held_connection, place, tried, wanted

where = place()
end = held_connection(where, "nagios")
passwords = HTTPPasswordMgrWithDefaultRealm()
passwords.add_password(None, f"http://{where.host}:{where.http_port}/", "guest", "guest")
opener = build_opener(HTTPBasicAuthHandler(passwords))
with opener.open(f"http://{where.host}:{where.http_port}/api/overview") as response:
    # The checks put "rabbit@" before the name that they are given.
    NODE = json.load(response)["node"].removeprefix("rabbit@")


def check(name: str, *arguments: str) -> None:
    def run() -> str:
        command = [
            f"check_rabbitmq_{name}",
            "-H",
            where.host,
            "--port",
            str(where.http_port),
            "-u",
            "guest",
            "-p",
            "guest",
        ]
        ran = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=15, check=False)
        wanted(ran.returncode in (0, 1, 2) and "OK" in ran.stdout, (ran.stdout + ran.stderr).strip()[-200:])
        return ran.stdout

    tried(f"check_rabbitmq_{name}", run)


check("aliveness")
check("connections")
check("objects")
check("overview")
check("partition", "-n", NODE)
check("queue", "--queue=nagios-queue", "-w", "100,100,100,100", "-c", "200,200,200,200")
check("server", "-n", NODE)
check("watermark", "-n", NODE)
end()

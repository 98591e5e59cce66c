"""The nodes of compose.yaml as a project of their own: with ports, volumes and a secret that no other project has."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .broker_process import free_port

ROOT = Path(__file__).parents[1]
FILES = {"dns": "compose.yaml", "s3": f"compose.yaml{os.pathsep}compose.s3.yaml"}
"""How the nodes find each other, and the compose files for it."""
COMMAND_S = 180.0


def engines() -> tuple[str, str] | None:
    """Returns the commands for compose and for containers of this machine, None if it has none that works."""
    for compose, engine in (("docker compose", "docker"), ("podman-compose", "podman")):
        if all(_works([*shlex.split(each), argument]) for each, argument in ((compose, "version"), (engine, "info"))):
            return compose, engine
    return None


def _works(command: Sequence[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, timeout=30, check=False).returncode == 0


class ComposeStack:
    """A project of compose. `port` is HAProxy's port for clients; `tell` gets each command before it runs."""

    def __init__(self, project: str, discovery: str, commands: tuple[str, str], tell: Callable[[str], None]) -> None:
        self.project = project
        self.port = free_port()
        self.profiles: list[str] = []
        self._compose, self._engine = commands
        self._tell = tell
        self._environment = {
            "COMPOSE_PROJECT_NAME": project,
            "COMPOSE_FILE": FILES[discovery],
            "COMPOSE_PATH_SEPARATOR": os.pathsep,
            "STROGOFF_COOKIE": secrets.token_hex(16),
            "STROGOFF_MQTT_PORT": str(self.port),
            "STROGOFF_WEBSOCKET_PORT": str(free_port()),
            "STROGOFF_HAPROXY_PORT": str(free_port()),
        }

    async def compose(self, *arguments: str) -> str:
        """Run a command of compose, and tell it. Returns its output; raises RuntimeError with its errors."""
        return await self._run(self._compose, arguments, told=True)

    async def remove_volumes(self, *names: str) -> None:
        """Delete volumes of the project by their names in compose.yaml."""
        await self._run(self._engine, ["volume", "rm", *[f"{self.project}_{name}" for name in names]], told=True)

    async def delete(self) -> None:
        """Remove all containers of the project, and its volumes."""
        self.profiles = ["five"]
        await self._run(self._compose, ["down", "-v"], told=False)
        self.profiles = []

    async def kill(self, service: str) -> None:
        """End a container with SIGKILL."""
        await self.compose("kill", "-s", "SIGKILL", service)

    async def admin(self, service: str, *command: str, told: bool = False) -> list[dict[str, Any]]:
        """Run vmq-admin in a container. Returns the rows of all tables of its output; RuntimeError if it fails."""
        arguments = ["exec", "-T", service, "vmq-admin", *command]
        text = await self._run(self._compose, [*arguments, "--format=json"], told=False)
        if told:
            self._tell("$ " + " ".join([self._compose, *arguments]))
        return [row for part in json.loads(text) if part.get("type") == "table" for row in part["table"]]

    async def leave(self, service: str, leaving: str) -> None:
        """Take a node with its sessions out of the cluster. Raises RuntimeError if the command fails."""
        await self.compose("exec", "-T", service, "vmq-admin", "cluster", "leave", f"node=VerneMQ@{leaving}", "-k")

    async def status(self, service: str) -> dict[str, Any]:
        """Returns the first table of `vmq-admin cluster status`; empty if the node does not answer."""
        try:
            rows = await self.admin(service, "cluster", "status")
        except RuntimeError:
            return {}
        return {row["Status"]: row["Value"] for row in rows if "Status" in row}

    async def settled(self, service: str, count: int) -> bool:
        """Whether the node sees a whole cluster of `count` members, and its slots are where they should be, with their
        copies."""
        status = await self.status(service)
        if (status.get("sees"), status.get("members"), status.get("serving")) != ("whole", count, count):
            return False
        calm = str(status.get("balance", "off")).startswith(("balanced", "off"))
        return calm and not status.get("slots_misplaced") and not status.get("slots_without_copy")

    async def log(self, service: str) -> str:
        """Returns the log of a container, or why there is none."""
        try:
            return await self._run(self._compose, ["logs", service], told=False)
        except RuntimeError as error:
            return str(error)

    async def _run(self, program: str, arguments: Sequence[str], *, told: bool) -> str:
        if told:
            self._tell("$ " + " ".join([program, *arguments]))
        process = await asyncio.create_subprocess_exec(
            *shlex.split(program),
            *arguments,
            cwd=ROOT,
            env={**os.environ, **self._environment, "COMPOSE_PROFILES": ",".join(self.profiles)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(COMMAND_S):
                output, errors = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise RuntimeError(f"{program} {' '.join(arguments)} did not end within {COMMAND_S:g} s") from None
        if process.returncode:
            said = (errors + output).decode(errors="replace").strip()
            raise RuntimeError(f"{program} {' '.join(arguments)} ended with status {process.returncode}: {said}")
        return output.decode(errors="replace")

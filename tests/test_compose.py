"""The containers fit together, are given settings and commands that exist, and Compose accepts the file."""

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from streamrank.cli.parser import build_parser
from streamrank.config import variables

FILE = Path(__file__).parents[1] / "docker-compose.yml"
SERVICES = yaml.safe_load(FILE.read_text())["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "streamrank"}
ENDS = {"topics", "producer"}  # do their work and end


def test_every_variable_is_a_setting():
    given = {name for service in SERVICES.values() for name in service.get("environment", {})}
    ours = {name for name in given if name.startswith("STREAMRANK_")}
    assert {"STREAMRANK_STORE", "STREAMRANK_KAFKA_SERVERS"} <= ours <= set(variables())


@pytest.mark.parametrize("name", OURS)
def test_every_command_is_one_of_ours(name):
    assert build_parser().parse_args(OURS[name]["command"])


def test_what_keeps_running_has_a_health_check():
    assert {name for name, service in SERVICES.items() if "healthcheck" not in service} == ENDS


def test_what_is_waited_for_is_there_and_can_come_true():
    for service in SERVICES.values():
        for other, how in service.get("depends_on", {}).items():
            ends = how["condition"] == "service_completed_successfully"
            assert ends == (other in ENDS)
            assert ends or how["condition"] == "service_healthy"


def test_every_volume_is_declared():
    mounted = [volume for service in SERVICES.values() for volume in service.get("volumes", ())]
    assert {volume.split(":")[0] for volume in mounted} == set(yaml.safe_load(FILE.read_text())["volumes"])


def test_compose_accepts_it():
    for command in (["docker", "compose"], ["docker-compose"]):
        if (
            shutil.which(command[0])
            and subprocess.run([*command, "version"], capture_output=True).returncode == 0
        ):
            done = subprocess.run([*command, "-f", FILE, "config", "--quiet"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return
    pytest.skip("no Docker Compose here")

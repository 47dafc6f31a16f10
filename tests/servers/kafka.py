"""An Apache Kafka broker, one node in KRaft mode, from the jars of Maven Central.

The jars are fetched once and kept in the user's cache folder under their version. A broker starts in about
three seconds, listens on loopback alone, and is ended by its process id.
"""

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

from tests.servers import Unavailable, free_port

VERSION = "4.1.1"
# kafka-tools (the console producer) would bring a web server along: nothing of it is needed
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>streamrank</groupId><artifactId>test-broker</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>{VERSION}</version>
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>2.24.3</version>
    </dependency>
    <dependency>
      <groupId>org.apache.logging.log4j</groupId><artifactId>log4j-core</artifactId><version>2.24.3</version>
    </dependency>
  </dependencies>
</project>
"""
PROPERTIES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={data}
auto.create.topics.enable=false
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=500
log.initial.task.delay.ms=500
broker.session.timeout.ms=1000
broker.heartbeat.interval.ms=200
"""
SECURE = """
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL
ssl.keystore.type=PEM
ssl.keystore.location={pem}
sasl.enabled.mechanisms=PLAIN
listener.name.secure.plain.sasl.jaas.config=\\
  org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
"""
USER, PASSWORD = "learner", "it-is-a-secret"
JAVA = ("java", "-Xms128m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
START_S = 60.0
FETCH_S = 600.0


class Broker:
    """One broker; `address` is HOST:PORT. Its data outlive `kill` and `restart`, and go with `stop`.

    With `secure` it listens at `secure_address` too, by TLS (trust `certificate`) and SASL (USER, PASSWORD).
    """

    def __init__(self, port: int = 0, *, secure: bool = False) -> None:
        self._jars = jars()
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._home = Path(tempfile.mkdtemp(prefix="streamrank-kafka-"))
        self._config = self._home / "server.properties"
        self.secure_address, self.certificate = "", self._home / "certificate.pem"
        properties = PROPERTIES.format(port=self.port, controller=free_port(), data=self._home / "data")
        if secure and shutil.which("openssl"):
            properties = self._secured(properties)
        self._config.write_text(properties)
        self._process: subprocess.Popen[bytes] | None = None
        format_storage = ("kafka.tools.StorageTool", "format", "-t", "c3RyZWFtcmFuay10ZXN0cw", "-c")
        try:
            done = subprocess.run(
                self.java(*format_storage, str(self._config)), capture_output=True, text=True
            )
            if done.returncode:
                raise Unavailable(f"Kafka cannot make its data folder: {done.stderr.strip() or done.stdout}")
            self.start()
        except BaseException:
            self.stop()
            raise

    def _secured(self, properties: str) -> str:
        key, both = self._home / "key.pem", self._home / "both.pem"
        command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {self.certificate}"
        names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
        subprocess.run([*command.split(), *names], check=True, capture_output=True)
        both.write_text(key.read_text() + self.certificate.read_text())
        self.secure_address = f"127.0.0.1:{free_port()}"
        listeners = f"listeners=SECURE://{self.secure_address},"
        secure = SECURE.format(pem=both, user=USER, password=PASSWORD)
        return properties.replace("listeners=PLAINTEXT", f"{listeners}PLAINTEXT", 1) + secure

    def java(self, main: str, *arguments: str) -> list[str]:
        """The command line of one of Kafka's own programs."""
        return [*JAVA, "-cp", f"{self._jars}/*", main, *arguments]

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._home / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.java("kafka.Kafka", str(self._config)),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for who started it, who then stops it
            )
        deadline = time.monotonic() + START_S
        while not answers(self.port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise Unavailable(
                    f"the Kafka broker did not start: {(self._home / 'log').read_text()[-500:]}"
                )
            time.sleep(0.05)

    def kill(self) -> None:
        """End it at once (kill -9)."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Kill it, and start it again on the same port with the same data."""
        self.kill()
        self.start()

    def stop(self) -> None:
        """End it and remove its data."""
        self._end(signal.SIGTERM)
        shutil.rmtree(self._home, ignore_errors=True)

    def _end(self, number: int) -> None:
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class Foreign:
    """A broker that others run: it can be used, not killed."""

    def __init__(self, address: str) -> None:
        self.address = address

    def stop(self) -> None:
        """Leave it as it is."""


def jars() -> Path:
    """The folder of the jars, fetched if they are not there yet."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamrank"
    folder = home / f"kafka-{VERSION}"
    if folder.is_dir():
        return folder
    for program, package in (("java", "a Java 17 runtime"), ("mvn", "Maven")):
        if shutil.which(program) is None:
            raise Unavailable(f"no {program}: a test broker needs {package}, or set STREAMRANK_TEST_KAFKA")
    home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=home) as aside:
        pom = Path(aside) / "pom.xml"
        pom.write_text(POM)
        fetched = Path(aside) / "jars"
        command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
        try:
            done = subprocess.run(
                [*command, "-DincludeScope=runtime", f"-DoutputDirectory={fetched}"],
                capture_output=True,
                text=True,
                timeout=FETCH_S,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"fetching Kafka's jars took longer than {FETCH_S:.0f} s") from None
        if done.returncode:
            raise Unavailable(f"Kafka's jars cannot be fetched: {done.stdout.strip()[-500:]}")
        with contextlib.suppress(OSError):  # another process was quicker: its jars are as good
            fetched.rename(folder)
    return folder


def answers(port: int) -> bool:
    """Whether a broker replies there: one ApiVersions request, version 0."""
    body = struct.pack(">hhih", 18, 0, 1, 0)  # which request, its version, a number of our own, no client id
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            connection.settimeout(2.0)
            connection.sendall(struct.pack(">i", len(body)) + body)
            reply = connection.recv(10)
    except OSError:
        return False
    return len(reply) == 10 and struct.unpack(">ih", reply[4:]) == (1, 0)

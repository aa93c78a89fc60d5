"""A standalone cluster of Spark on loopback: one master and two workers, with authentication, started by the tests."""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyspark

SECRET = "a secret of the tests, and of nobody else"  # noqa: S105 - of a cluster that lives for a test run
_HOME = Path(pyspark.__file__).parent
_PATIENCE = 90


class Standalone:
    """Processes of one cluster; ``stop`` ends all of them, whatever state they are in."""

    def __init__(self, folder: Path, *, settings: str = "spark.authenticate true\n") -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "conf").mkdir()
        (folder / "conf" / "spark-defaults.conf").write_text(f"{settings}spark.master.rest.enabled false\n")
        self.secret_file = folder / "secret"
        self.secret_file.write_text(SECRET)
        self._processes = []
        self.master = ""

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()

    def start(self, *, workers: int = 2) -> "Standalone":
        try:
            self._start(workers)
        except BaseException:
            self.stop()
            raise
        return self

    def _start(self, workers):
        self._run("Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        self.master = self._logged("Master-0", r"Starting Spark master at (spark://\S+)")
        for number in range(workers):
            place = self.folder / f"work-{number}"
            self._run(
                "Worker", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0", "--cores", "1", "--memory", "1500m",
                "--work-dir", str(place), self.master,
            )  # fmt: skip
        for number in range(workers):
            self._logged(f"Worker-{number + 1}", r"(Successfully registered) with master")

    def _run(self, kind, *arguments):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK"))}
        environment |= {
            "SPARK_HOME": str(_HOME),
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
            "_SPARK_AUTH_SECRET": SECRET,
        }
        log = self.folder / f"{kind}-{len(self._processes)}.log"
        command = [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind.lower()}.{kind}", *arguments]
        with log.open("wb") as file:
            self._processes.append(
                subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True)  # noqa: S603 - Spark
            )

    def _logged(self, name, pattern):
        until = time.monotonic() + _PATIENCE
        log = self.folder / f"{name}.log"
        while time.monotonic() < until:
            found = re.search(pattern, log.read_text(errors="replace"))
            if found is not None:
                return found.group(1)
            assert all(process.poll() is None for process in self._processes), log.read_text(errors="replace")[-2000:]
            time.sleep(0.1)
        message = f"{name} did not come up: {log.read_text(errors='replace')[-2000:]}"
        raise AssertionError(message)

    def executors(self):
        """Return the process numbers of the executors that the workers run now."""
        workers = {process.pid for process in self._processes[1:]}
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                parent = int(status.read_text().rpartition(")")[2].split()[1])
                command = (status.parent / "cmdline").read_bytes()
                if parent in workers and b"CoarseGrainedExecutorBackend" in command:
                    found.append(int(status.parent.name))
        return sorted(found)

    def logs(self):
        """Return all that master, workers and executors wrote about themselves."""
        written = [*self.folder.glob("*.log"), *self.folder.glob("work-*/**/stderr"), *self.folder.glob("work-*/**/stdout")]
        assert len(written) > len(self._processes)
        return b"".join(path.read_bytes() for path in written)

    def stop(self):
        """End every process of the cluster: executors are in the sessions of their workers."""
        for pid in self.executors():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in reversed(self._processes):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(_PATIENCE)
        self._processes = []


SETTINGS = {
    "spark.authenticate": "true",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "700m",
    "spark.executor.memory": "640m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.autoBroadcastJoinThreshold": "1m",
    "spark.pyspark.python": sys.executable,
    "spark.executorEnv.OMP_NUM_THREADS": "1",
}

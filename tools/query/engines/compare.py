"""compare.py FOLDER --clscope PATH [OPTIONS]: whether other engines give what `clscope sql` gives.

Starts a cluster of two workers, or of --workers (Spark standalone, and Dask, or --engine of them), asks all recipes of
each, or --recipes, then kills one worker with SIGKILL while it works on an answer and asks again. Integers and names must be equal, so times are equal to the
nanosecond; sums of floats are added in other orders, and may differ by 1e-9 of themselves. With --namespaces each
worker is a host: a network namespace of its own, with a route to the others (root; changes nothing outside of it).
Prints what was compared, and what it took for each command of the folder; ends with 1 at the first difference."""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, List, Optional

import tables

#: Longest wait for a cluster, a worker or an answer, in seconds.
LIMIT = 300.0
#: Kills are tried in so many answers; an answer may be too quick for one.
TRIES = 50
#: The address of scheduler and driver, where workers have namespaces of their own.
HERE = "10.213.0.1"
#: Tells the program that it is in a namespace already.
INSIDE = "CLSCOPE_COMPARE_INSIDE"


def until(what: str, ready: Callable[[], Any]) -> Any:
    """Waits for something, with a limit."""
    end = time.monotonic() + LIMIT
    while time.monotonic() < end:
        found = ready()
        if found:
            return found
        time.sleep(0.02)
    raise SystemExit(f"waited {LIMIT:.0f} s for {what}")


def free(address: str) -> int:
    """A free port."""
    with socket.socket() as made:
        made.bind((address, 0))
        return int(made.getsockname()[1])


class Hosts:
    """Places for workers: this host, or a network namespace for each."""

    def __init__(self, count: int, separate: bool, folder: str) -> None:
        self.count = count
        self.address = HERE if separate else "127.0.0.1"
        self.folder = folder
        self.enter: List[List[str]] = [[] for _ in range(count)]
        self.addresses = [self.address] * count
        self.started: List[subprocess.Popen] = []
        if not separate:
            return

        def ip(*words: str) -> None:
            subprocess.run(["ip", *words], check=True)

        ip("link", "set", "lo", "up")
        ip("address", "add", f"{HERE}/32", "dev", "lo")
        # Of this namespace alone: from one worker's network to the other's.
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        for i in range(count):
            network = f"10.213.{i + 1}"
            holder = self.start(["unshare", "--net", "sleep", "infinity"], f"host{i}")
            own = os.readlink("/proc/self/ns/net")
            until("a namespace", lambda: os.readlink(f"/proc/{holder.pid}/ns/net") != own)
            inside = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
            ip("link", "add", f"to{i}", "type", "veth", "peer", "name", "eth", "netns", str(holder.pid))
            ip("address", "add", f"{network}.1/24", "dev", f"to{i}")
            ip("link", "set", f"to{i}", "up")
            for line in ("link set lo up", f"address add {network}.2/24 dev eth", "link set eth up",
                         f"route add default via {network}.1"):
                subprocess.run([*inside, "ip", *line.split()], check=True)
            self.enter[i] = inside
            self.addresses[i] = f"{network}.2"

    def start(self, command: List[str], name: str, **environment: str) -> subprocess.Popen:
        """Starts a program of the cluster in a process group of its own. It does not outlive this one."""
        command = ["setpriv", "--pdeathsig", "KILL", *command]
        with open(os.path.join(self.folder, f"{name}.log"), "wb") as log:
            made = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                    start_new_session=True, env={**os.environ, **environment})
        self.started.append(made)
        return made

    @staticmethod
    def kill(process: subprocess.Popen) -> None:
        """Ends a program and all that it started, as if its host had lost power."""
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()

    def close(self) -> None:
        for process in reversed(self.started):
            self.kill(process)


class Dask:
    """A cluster of Dask."""

    def __init__(self, hosts: Hosts, folder: str) -> None:
        import with_dask
        from distributed import Client

        self.folder, self.module = folder, with_dask
        at = f"tcp://{hosts.address}:{free(hosts.address)}"
        dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", at, "--no-dashboard"]
        hosts.start(dask, "dask-scheduler")
        self.workers = {}
        for i in range(hosts.count):
            address = f"tcp://{hosts.addresses[i]}:{free(hosts.address)}"
            worker = [sys.executable, "-m", "distributed.cli.dask_worker", at, "--listen-address", address,
                      "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", hosts.folder]
            self.workers[address] = hosts.start([*hosts.enter[i], *worker], f"dask-worker{i}")
        self.client = Client(at, timeout=LIMIT)
        self.client.wait_for_workers(hosts.count, timeout=LIMIT)
        for module in (tables, with_dask):
            self.client.upload_file(module.__file__)

    def answer(self, name: str) -> List[dict]:
        return self.module.answer(self.folder, name)

    def busy(self) -> Optional[subprocess.Popen]:
        """A worker that has something to do."""
        for address, tasks in self.client.processing().items():
            if tasks:
                return self.workers[address]
        return None

    def left(self) -> int:
        return len(self.client.scheduler_info()["workers"])

    def close(self) -> None:
        self.client.close()


class Spark:
    """A standalone cluster of Spark."""

    def __init__(self, hosts: Hosts, folder: str) -> None:
        import pyspark
        import with_spark

        self.folder, self.module = folder, with_spark
        home = os.path.dirname(pyspark.__file__)
        run, port = os.path.join(home, "bin", "spark-class"), free(hosts.address)
        deploy = "org.apache.spark.deploy"
        common = {"SPARK_HOME": home, "SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}
        web = ["--webui-port", "0"]
        master = [run, f"{deploy}.master.Master", "--host", hosts.address, "--port", str(port), *web]
        hosts.start(master, "spark-master", SPARK_LOCAL_IP=hosts.address, **common)

        def listens() -> bool:
            with socket.socket() as made:
                return made.connect_ex((hosts.address, port)) == 0

        until("Spark's master", listens)
        at = f"spark://{hosts.address}:{port}"
        self.workers = []
        for i in range(hosts.count):
            worker = [run, f"{deploy}.worker.Worker", "--host", hosts.addresses[i], "--cores", "1",
                      "--memory", "700m", "-d", os.path.join(hosts.folder, f"spark{i}"), *web, at]
            made = hosts.start([*hosts.enter[i], *worker], f"spark-worker{i}", SPARK_LOCAL_IP=hosts.addresses[i], **common)
            self.workers.append(made)
        os.environ["SPARK_LOCAL_IP"] = hosts.address
        self.spark = with_spark.session(
            at, spark_driver_host=hosts.address, spark_executor_memory="600m", spark_ui_enabled="false",
            spark_sql_shuffle_partitions="4", spark_local_dir=hosts.folder)
        until("Spark's workers", lambda: self.left() == hosts.count)

    def answer(self, name: str) -> List[dict]:
        return self.module.answer(self.spark, self.folder, name)

    def busy(self) -> Optional[subprocess.Popen]:
        """A worker of two that both have something to do."""
        tracker = self.spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        active = sum(stage.numActiveTasks for stage in stages if stage)
        return self.workers[0] if active >= 2 else None

    def left(self) -> int:
        # The driver is one of them.
        return self.spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1

    def close(self) -> None:
        self.spark.stop()


def same(a: Any, b: Any) -> bool:
    """Whether two values are; sums of floats in another order count as the same."""
    if isinstance(a, float) and isinstance(b, (int, float)):
        return math.isclose(a, b, rel_tol=1e-9)
    return type(a) is type(b) and a == b


def compare(what: str, want: List[dict], found: List[dict]) -> None:
    """Ends the program at a difference. Rows are in no order: where the text of a query leaves one open, engines differ."""
    def exact(row: dict) -> str:
        return json.dumps({name: value for name, value in row.items() if not isinstance(value, float)}, sort_keys=True)

    want, found = sorted(want, key=exact), sorted(found, key=exact)
    if len(want) != len(found):
        raise SystemExit(f"{what}: {len(found)} rows, clscope sql gives {len(want)}")
    for a, b in zip(want, found):
        if a.keys() != b.keys() or not all(same(a[name], b[name]) for name in a):
            raise SystemExit(f"{what}: {json.dumps(b)}, clscope sql gives {json.dumps(a)}")


def lose_a_worker(name: str, engine: Any, want: dict, hosts: Hosts) -> str:
    """Kills a worker while it works on an answer, which must be right all the same. Gives the answer's name."""
    for attempt in range(TRIES):
        recipe = list(want)[attempt % len(want)]
        got: List[Any] = []

        def ask() -> None:
            try:
                got.append(engine.answer(recipe))
            except Exception as error:  # Of whatever kind, it is the answer's end.
                got.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        victim = None
        while victim is None and asking.is_alive():
            victim = engine.busy()
        in_time = victim is not None and asking.is_alive()
        if in_time:
            hosts.kill(victim)
        # An answer that came in the moment of the kill did without what was killed.
        in_time = in_time and asking.is_alive()
        asking.join(LIMIT)
        if asking.is_alive():
            raise SystemExit(f"{name}: no answer {LIMIT:.0f} s after a worker was killed")
        if isinstance(got[0], Exception):
            raise got[0]
        compare(f"{name}, {recipe}, a worker killed", want[recipe], got[0])
        if in_time:
            return recipe
        if victim is not None and victim.poll() is not None:
            raise SystemExit(f"{name}: {recipe} was answered before the kill was done: try again with more data")
    raise SystemExit(f"{name}: no answer took long enough for a kill: try again with more data")


def commands(folder: str) -> int:
    """Commands that the folder holds."""
    import pyarrow.parquet

    return sum(pyarrow.parquet.read_metadata(part).num_rows for part in tables.parts(folder, "commands"))


def trial(name: str, kind: Callable, hosts: Hosts, folder: str, want: dict, took: dict) -> None:
    engine = kind(hosts, folder)
    count = commands(folder)
    for recipe, rows in want.items():
        begun = time.monotonic()
        compare(f"{name}, {recipe}", rows, engine.answer(recipe))
        spent = time.monotonic() - begun
        print(f"{name}: {recipe}: {len(rows)} rows are equal, {spent:.1f} s, {spent / max(count, 1) * 1e9:.0f} ns a command;"
              f" clscope sql {took[recipe]:.1f} s, {took[recipe] / max(count, 1) * 1e9:.0f} ns", flush=True)
    recipe = lose_a_worker(name, engine, want, hosts)
    until("a worker to be gone", lambda: engine.left() == hosts.count - 1)
    for again, rows in want.items():
        compare(f"{name}, {again}, one worker less", rows, engine.answer(again))
    print(f"{name}: a worker of {hosts.count} killed during {recipe}: all {len(want)} answers are equal", flush=True)
    engine.close()


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--clscope", required=True)
    parser.add_argument("--engine", choices=["spark", "dask"])
    parser.add_argument("--namespaces", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--recipes", type=lambda text: text.split(","), default=[])
    named: Any = parser.parse_args()
    tables.check(named.folder)
    if named.engine is None:
        for name in KINDS:
            run_again(["--engine", name], [])
        return
    if named.namespaces and os.environ.pop(INSIDE, None) is None:
        run_again([], ["env", f"{INSIDE}=1", "unshare", "--net"])
        return
    folder = os.path.abspath(named.folder)
    want, took = {}, {}
    for recipe in tables.chosen(named.recipes):
        command = [named.clscope, "sql", "--format", "json", "--recipe", recipe, folder]
        begun = time.monotonic()
        asked = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "CLSCOPE_DUCKDB": sys.executable})
        want[recipe] = json.loads(asked.stdout)
        took[recipe] = time.monotonic() - begun
    with tempfile.TemporaryDirectory(prefix="clscope-engines-") as logs:
        hosts = None
        try:
            hosts = Hosts(named.workers, named.namespaces, logs)
            trial(named.engine, KINDS[named.engine], hosts, folder, want, took)
        except BaseException:
            for log in sorted(pathlib.Path(logs).glob("*.log")):
                text = log.read_bytes()[-2000:].decode(errors="replace")
                print(f"--- {log.name}\n{text.encode('unicode_escape').decode()}", file=sys.stderr)
            raise
        finally:
            if hosts:
                hosts.close()


def run_again(options: List[str], inside: List[str]) -> None:
    """This program with more options, inside of something; ends this one where it fails."""
    done = subprocess.run([*inside, sys.executable, "-B", *sys.argv, *options], check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


KINDS = {"dask": Dask, "spark": Spark}

if __name__ == "__main__":
    tables.main(run)

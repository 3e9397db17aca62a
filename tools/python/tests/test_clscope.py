"""The package on a recording of a PyOpenCL application. Run by the end-to-end tests, with the command in PATH and
PyOpenCL installed: python -m unittest discover tools/python/tests"""

import gc
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

import clscope
from clscope import Rows, _bridges, _plot, _table

APPLICATION = """
import numpy as np
import pyopencl as cl

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
program = cl.Program(context, '''
__kernel void twice(__global float *x) { x[get_global_id(0)] *= 2; }
__kernel void thrice(__global float *x) { x[get_global_id(0)] *= 3; }
''').build()
host = np.arange(4096, dtype=np.float32)
device = cl.Buffer(context, cl.mem_flags.COPY_HOST_PTR, hostbuf=host)
twice, thrice = cl.Kernel(program, "twice"), cl.Kernel(program, "thrice")
for _ in range(20):
    twice(queue, host.shape, None, device)
thrice(queue, host.shape, (64,), device)
result = np.empty_like(host)
cl.enqueue_copy(queue, result, device)
assert np.allclose(result, host * 2.0**20 * 3)
"""


def has(*packages):
    """Whether packages are installed that the module can do without."""
    return all(importlib.util.find_spec(name) for name in packages)


class Shown(unittest.TestCase):
    def test_wide_and_long_rows_say_what_they_leave_out(self):
        rows = [{"name": "k\x1b" + "x" * 50, "total_ns": 10**n, "joules": None, "z" * 90: 1.0} for n in range(12)]
        lines = _table.text_table(rows[:10], 2, 80).splitlines()
        self.assertEqual(lines[0].split(), ["name", "total_ns", "joules"])
        self.assertEqual(len(lines), 13)
        self.assertTrue(lines[1].startswith("k\\x1bxx") and lines[1].endswith("..." + lines[1][40:]))
        self.assertEqual(lines[-2:], ["and 2 more rows", "and columns " + "z" * 90])
        self.assertTrue(all(len(line) <= 80 for line in lines[:-1]))
        self.assertEqual((Rows(rows)[2]["total_ns"], Rows(rows)[-1]["name"]), (100, rows[-1]["name"]))
        self.assertEqual(repr(Rows([])), "<clscope rows: none>")
        hostile = Rows([{"name": "<script>"}])._repr_html_()
        self.assertIn("&lt;script&gt;", hostile)
        self.assertNotIn("<script>", hostile)


class Recorded(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        script = os.path.join(cls.folder.name, "app.py")
        with open(script, "w") as file:
            file.write(APPLICATION)
        cls.command = [sys.executable, script]
        output = os.path.join(cls.folder.name, "100% run")
        cls.run_ = clscope.record(cls.command, output, device_timing="event", sensors="off")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_sums_are_the_reports(self):
        run = self.run_
        self.assertEqual(run.exit_code, 0)
        kernels = {row["name"]: row for row in run.kernels()}
        self.assertEqual({n: k["launches"] for n, k in kernels.items()}, {"twice": 20, "thrice": 1})
        self.assertEqual(
            sum(k["total_ns"] for k in kernels.values()), run.report["totals"]["kernel_ns"]
        )
        # Without a sensor no joules are known, which is not 0.
        self.assertIsNone(kernels["twice"]["joules"])
        self.assertEqual(len(run.energy()), 0)
        self.assertIn(4096 * 4, [row["bytes"] for row in run.transfers()])
        self.assertIn("clEnqueueNDRangeKernel", [row["name"] for row in run.functions()])
        self.assertAlmostEqual(sum(row["share"] for row in run.why()), 1.0)
        self.assertTrue(all(row["text"] for row in run.advice()))

    def test_tables_hold_the_same(self):
        try:
            import duckdb  # noqa: F401
        except ImportError:
            self.skipTest("DuckDB is not installed")
        run = self.run_
        launches = [row for row in run.commands() if row["name"] == "twice"]
        self.assertEqual(len(launches), 20)
        kernels = {row["name"]: row for row in run.kernels()}
        self.assertEqual(sum(row["duration_ns"] for row in launches), kernels["twice"]["total_ns"])
        self.assertEqual({row["global_x"] for row in launches}, {4096})
        self.assertEqual({row["energy_j"] for row in launches}, {None})
        query = "SELECT name, count(*) FROM commands WHERE local_x = 64 GROUP BY name"
        self.assertEqual(run.sql(query).fetchall(), [("thrice", 1)])
        calls = sum(row["calls"] for row in run.calls())
        self.assertEqual(calls, run.report["totals"]["calls"])
        self.assertEqual(len(run.power()), 0)
        data = os.path.join(self.folder.name, "data")
        run.export(data)
        self.assertTrue(os.path.isdir(os.path.join(data, "commands")))

    def test_relations_outlive_their_run(self):
        if not has("duckdb"):
            self.skipTest("DuckDB is not installed")

        def relations():
            run = clscope.open(self.run_.traces)
            folder = os.path.dirname(run._exported("commands"))
            return folder, [run.sql("FROM commands").filter("name = 'twice'"),
                            run.commands().duckdb().filter("name = 'twice'")]

        folder, made = relations()
        gc.collect()
        for relation in made:
            self.assertEqual(len(relation.fetchall()), 20)
        # Nothing is left when the last one is gone.
        self.assertTrue(os.path.isdir(folder))
        del relation, made
        gc.collect()
        self.assertFalse(os.path.exists(folder))

    def test_rows_show_themselves(self):
        lines = repr(self.run_.kernels()).splitlines()
        self.assertEqual(lines[0].split()[:2], ["name", "launches"])
        self.assertEqual({line.split()[0] for line in lines[1:3]}, {"twice", "thrice"})
        page = self.run_.kernels()._repr_html_()
        self.assertIn("<th>total_ns</th>", page)
        self.assertIn("<td>twice</td>", page)
        self.assertIn(">-</td>", page)
        self.assertIn("<clscope table commands: .head()", repr(self.run_.commands()))
        self.assertEqual(len(self.run_.commands().head(3)), 3)

    def test_the_version_is_the_packages(self):
        self.assertRegex(clscope.__version__, r"^\d+(\.|\+source)")

    def test_frames_or_the_package_that_is_missing(self):
        for extra, method in [("pandas", "pandas"), ("polars", "polars"), ("arrow", "arrow")]:
            name = {"arrow": "pyarrow"}.get(extra, extra)
            try:
                __import__(name)
            except ImportError:
                with self.assertRaisesRegex(clscope.MissingPackage, rf"clscope\[{extra}\]"):
                    getattr(self.run_.kernels(), method)()
                continue
            for view in (self.run_.kernels(), self.run_.commands()):
                self.assertEqual(len(getattr(view, method)()), len(view))

    def test_a_run_does_not_differ_from_itself(self):
        found = clscope.diff(self.run_, self.run_, fail_on="count:+1%")
        self.assertTrue(found["comparable"])
        self.assertNotIn("more", [row["outcome"] for row in found["rows"]])
        page = os.path.join(self.folder.name, "report.html")
        self.run_.html(page)
        self.assertGreater(os.path.getsize(page), 1000)

    def test_mistakes_are_told(self):
        with self.assertRaisesRegex(clscope.Error, "no trace directory"):
            clscope.open(os.path.join(self.folder.name, "none.clscope"))
        with self.assertRaisesRegex(clscope.Error, "as a list"):
            clscope.record("./app")
        with self.assertRaisesRegex(clscope.Error, "formula|gpu-power"):
            clscope.open(self.run_.traces, gpu_power="magic").kernels()
        with self.assertRaisesRegex(ValueError, "no table"):
            self.run_.table("colours")
        empty = os.path.join(self.folder.name, "empty.clscope")
        os.mkdir(empty)
        with self.assertRaisesRegex(clscope.Error, "holds no"):
            clscope.open(empty).kernels()
        failing = [sys.executable, "-c", "import sys; sys.exit(3)"]
        output = os.path.join(self.folder.name, "failing")
        with self.assertRaisesRegex(clscope.Error, "ended with 3"):
            clscope.record(failing, output, sensors="off")

    def test_plots_show_every_queue_and_kernel_or_name_the_package(self):
        run = self.run_
        if not has("matplotlib", "pyarrow"):
            with self.assertRaisesRegex(clscope.MissingPackage, r"clscope\[(plot|sql)\]"):
                run.plot_timeline()
            return
        import matplotlib

        matplotlib.use("Agg")
        ax = run.plot_timeline()
        shown = {text.get_text() for text in ax.get_legend().get_texts()}
        self.assertLessEqual({"twice", "thrice"}, shown)
        self.assertEqual(len(ax.get_yticks()), 1)
        commands = [row for row in run.commands() if row["duration_ns"] is not None]
        end = max(row["start_ns"] + row["duration_ns"] for row in commands)
        self.assertAlmostEqual(ax.get_xlim()[1], end * 1e-9)
        picture = os.path.join(self.folder.name, "timeline.png")
        ax.figure.savefig(picture)
        with open(picture, "rb") as file:
            self.assertEqual(file.read(4), b"\x89PNG")
        with self.assertRaisesRegex(clscope.Error, "no timed command"):
            run.plot_timeline(start=end * 1e-9 + 1)
        with self.assertRaisesRegex(ValueError, "empty"):
            run.plot_timeline(start=2, end=1)
        # Without a sensor there is no curve, and no empty picture.
        with self.assertRaisesRegex(clscope.Error, "no reading of power"):
            run.plot_power()

    def test_power_is_drawn_as_it_was_read(self):
        if not has("matplotlib"):
            with self.assertRaisesRegex(clscope.MissingPackage, r"clscope\[plot\]"):
                _plot.axes(None, 1)
            return
        import matplotlib

        matplotlib.use("Agg")
        rows = [
            {"sensor": "a $x$\x1b", "unit": "W", "time_ns": 2_000_000_000, "value": 7.0},
            {"sensor": "a $x$\x1b", "unit": "W", "time_ns": 1_000_000_000, "value": 5.0},
            {"sensor": "clock", "unit": "MHz", "time_ns": 0, "value": 900.0},
        ]
        ax = _plot.power(Rows(rows), None, None, None)
        [line] = ax.get_lines()
        self.assertEqual(list(line.get_xdata()), [1.0, 2.0])
        self.assertEqual(list(line.get_ydata()), [5.0, 7.0])
        [name] = ax.get_legend().get_texts()
        self.assertEqual(name.get_text(), r"a \$x\$\\x1b")
        ax.figure.canvas.draw()
        later = _plot.power(Rows(rows), None, 1.5, None)
        self.assertEqual(list(later.get_lines()[0].get_ydata()), [7.0])

    def test_bars_that_cannot_be_told_apart_are_one(self):
        self.assertEqual(_plot.joined([(3, 1), (0, 1), (1.05, 1)], 0.1), [(0, 2.05), (3, 1)])

    def test_pipit_has_pairs_that_nest(self):
        run = self.run_
        if not has("pandas", "pyarrow"):
            with self.assertRaises(clscope.MissingPackage):
                run.pipit()
            return
        events = run.pipit()
        names = ["Timestamp (ns)", "Event Type", "Name", "Thread", "Process", "Place", "Calls"]
        self.assertEqual(list(events.columns), names)
        self.assertTrue(events["Timestamp (ns)"].is_monotonic_increasing)
        commands = [row for row in run.commands() if row["outcome"] == "timed"]
        self.assertEqual(len(events), 2 * (len(commands) + len(run.calls())))
        for _, place in events.groupby(["Process", "Thread"]):
            stack = []
            for kind, name in zip(place["Event Type"], place["Name"]):
                if kind == "Enter":
                    stack.append(name)
                else:
                    self.assertEqual(stack.pop(), name)
            self.assertEqual(stack, [])
        on_queue = events[events["Name"] == "twice"]
        spent = on_queue.groupby("Event Type", observed=True)["Timestamp (ns)"].sum()
        twice = next(row for row in run.kernels() if row["name"] == "twice")
        self.assertEqual(spent["Leave"] - spent["Enter"], twice["total_ns"])

    def test_overlapping_spans_have_rows_of_their_own(self):
        self.assertEqual(_bridges.lanes([0, 1, 2, 5], [3, 2, 4, 6]), [0, 1, 1, 0])

    def test_hatchet_has_the_reports_sums(self):
        run = self.run_
        [process] = run.hatchet()
        kernels = {row["name"]: row for row in run.kernels()}
        found = {node["frame"]["name"]: node["metrics"] for node in process["children"]}
        for name, row in kernels.items():
            self.assertAlmostEqual(found[name]["time"], row["total_ns"] * 1e-9)
            self.assertEqual(found[name]["launches"], row["launches"])
            self.assertNotIn("joules", found[name])
        whole = sum(metrics["time (inc)"] for metrics in found.values())
        self.assertAlmostEqual(process["metrics"]["time (inc)"], whole)
        if has("hatchet"):
            import hatchet

            frame = hatchet.GraphFrame.from_literal([process]).dataframe
            self.assertAlmostEqual(frame["time"].sum(), whole)

    def test_a_running_process_is_seen_and_its_end(self):
        script = os.path.join(self.folder.name, "waits.py")
        with open(script, "w") as file:
            file.write(APPLICATION + "\nprint('launched', flush=True)\ninput()\n")
        trace = os.path.join(self.folder.name, "live.clscope")
        command = ["clscope", "record", "-q", "--device-timing=event", "--sensors=off", "-o", trace]
        running = subprocess.Popen(
            [*command, "--", sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            self.assertEqual(running.stdout.readline(), b"launched\n")
            now = clscope.live(trace, interval=0.1)
            kernels = {row["name"]: row for row in now.kernels()}
            self.assertTrue(now.running)
            self.assertEqual({n: k["launches"] for n, k in kernels.items()}, {"twice": 20, "thrice": 1})
            self.assertIsNone(kernels["twice"]["joules"])
            [process] = now.state["processes"]
            by_id = clscope.live(process["pid"], interval=0.1)
            self.assertEqual(len(by_id.kernels()), 2)
            self.assertEqual(len(now.devices()), 1)
            self.assertEqual(len(now.power()), 0)
            # The same as sums and tables of what was done so far.
            so_far = clscope.open(trace)
            self.assertTrue(so_far.running)
            self.assertEqual({k["name"]: k["launches"] for k in so_far.kernels()}, {"twice": 20, "thrice": 1})
            if has("duckdb"):
                self.assertEqual(len([row for row in so_far.commands() if row["name"] == "twice"]), 20)
        finally:
            running.communicate(b"\n")
        self.assertEqual(running.returncode, 0)
        self.assertTrue(so_far.running)
        self.assertFalse(clscope.open(trace).running)
        # Of what has ended there is one reading, which says so.
        readings = [reading.running for reading in clscope.live(trace)]
        self.assertEqual(readings, [False])
        with self.assertRaises(clscope.Error):
            clscope.live(os.path.join(self.folder.name, "none.clscope")).kernels()

    def test_the_package_is_typed(self):
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(clscope.__file__), "py.typed")))
        told = subprocess.run(
            [sys.executable, "-m", "pydoc", "clscope"], capture_output=True, text=True, check=True
        )
        self.assertIn("clscope.record", told.stdout)


if __name__ == "__main__":
    unittest.main()

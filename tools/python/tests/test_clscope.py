"""The package on a recording of a PyOpenCL application. Run by the end-to-end tests, with the command in PATH and
PyOpenCL installed: python -m unittest discover tools/python/tests"""

import os
import subprocess
import sys
import tempfile
import unittest

import clscope

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
        self.assertNotIn("more", [row["verdict"] for row in found["rows"]])
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

    def test_the_package_is_typed(self):
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(clscope.__file__), "py.typed")))
        told = subprocess.run(
            [sys.executable, "-m", "pydoc", "clscope"], capture_output=True, text=True, check=True
        )
        self.assertIn("clscope.record", told.stdout)


if __name__ == "__main__":
    unittest.main()

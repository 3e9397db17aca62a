#!/usr/bin/env python3
"""python_apps.py NAME: runs one of the applications below on the first OpenCL device, some rounds of it, and prints what it
computed as numbers and hashes. Ordinary applications, which know nothing of profilers: each is what the first page of its
library's manual shows. Nothing printed depends on time."""
import hashlib
import os
import sys

import numpy as np

rng = np.random.default_rng(5)


def digest(*arrays):
    out = hashlib.sha256()
    for array in arrays:
        out.update(np.ascontiguousarray(array).tobytes())
    return out.hexdigest()[:16]


def pyopencl(rounds=40):
    """Elementwise arithmetic, prefix sums, a reduction and a radix sort."""
    import pyopencl as cl
    import pyopencl.algorithm
    import pyopencl.array
    import pyopencl.clmath

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    a, b = (cl.array.to_device(queue, rng.random(1 << 18, dtype=np.float32)) for _ in range(2))
    keys = cl.array.to_device(queue, rng.integers(0, 1 << 16, 1 << 16, dtype=np.uint32))
    words = {"arguments": "float *x, float *y", "input_expr": "x[i]", "scan_expr": "a+b", "neutral": "0"}
    scan = cl.scan.GenericScanKernel(context, np.float32, output_statement="y[i] = item", **words)
    sort = cl.algorithm.RadixSort(context, "unsigned *keys", key_expr="keys[i]", sort_arg_names=["keys"], key_dtype=np.uint32)
    sums = cl.array.empty_like(a)
    for _ in range(rounds):
        a = 0.5 * (a + b * cl.clmath.sin(a))
        scan(a, sums)
        total = cl.array.sum(a).get()
        (ordered,), _ = sort(keys, key_bits=16)
    print("sum", total, "sums", digest(sums.get()), "sorted", digest(ordered.get()))


def reikna(rounds=30):
    """Fast Fourier transforms, products of matrices and reductions."""
    import reikna.cluda as cluda
    from reikna.algorithms import Reduce, predicate_sum
    from reikna.fft import FFT
    from reikna.linalg import MatrixMul

    thread = cluda.ocl_api().Thread.create()
    field = rng.random((128, 512)).astype(np.complex64)
    there = thread.to_device(field)
    fft = FFT(there).compile(thread)
    matrix = thread.to_device(rng.random((256, 256), dtype=np.float32) / 256)
    product = thread.empty_like(matrix)
    times = MatrixMul(matrix, matrix).compile(thread)
    reduce = Reduce(matrix, predicate_sum(np.float32), axes=(1,))
    reduce_there = reduce.compile(thread)
    sums = thread.empty_like(reduce.parameter.output)
    for _ in range(rounds):
        fft(there, there)
        fft(there, there, inverse=1)
        times(product, matrix, product)
        reduce_there(sums, matrix)
        thread.synchronize()
    print("field", digest(there.get()), "product", digest(product.get()), "sums", digest(sums.get()))


def pyclesperanto(rounds=12):
    """Images: blurs, a threshold, labels and their sizes."""
    import pyclesperanto as cle

    cle.select_device("", "all")
    image = cle.push(rng.random((24, 128, 128)).astype(np.float32))
    for _ in range(rounds):
        blurred = cle.gaussian_blur(image, sigma_x=2, sigma_y=2, sigma_z=1)
        edges = cle.sobel(blurred)
        high = cle.greater_constant(blurred, scalar=0.5)
        labels = cle.connected_components_labeling(high)
        eroded = cle.erode_labels(labels, radius=1)
    found = [cle.pull(of) for of in (blurred, edges, high, labels, eroded)]
    print("labels", int(found[3].max()), digest(*found))


def pyfai(rounds=40):
    """Powder diffraction: images of a detector integrated over circles."""
    import pyFAI
    from pyFAI.integrator.azimuthal import AzimuthalIntegrator
    from pyFAI.method_registry import IntegrationMethod

    detector = pyFAI.detector_factory("Pilatus300k")
    ai = AzimuthalIntegrator(dist=0.1, poni1=0.04, poni2=0.04, detector=detector, wavelength=1e-10)
    images = rng.poisson(100, (4, *detector.shape)).astype(np.int32)
    found = []
    for pick in ("csr", "lut", "histogram"):
        method = IntegrationMethod.select_one_available(("bbox" if pick != "histogram" else "no", pick, "opencl"), dim=1)
        if method is None:
            continue
        for n in range(rounds // (1 if pick == "csr" else 4)):
            result = ai.integrate1d(images[n % 4], 500, method=method, unit="2th_deg", correctSolidAngle=True)
        found += [pick, digest(result.intensity.astype(np.float32))]
    print(*found)


def sasmodels(rounds=6):
    """Small-angle scattering: intensities of models with spread sizes."""
    os.environ.setdefault("SAS_OPENCL", "0")
    from sasmodels.core import load_model
    from sasmodels.data import empty_data1D, empty_data2D
    from sasmodels.direct_model import DirectModel

    line = empty_data1D(np.logspace(-3, -0.5, 200))
    plane = empty_data2D(np.linspace(-0.1, 0.1, 64))
    found = []
    for name, spread in (("sphere", "radius"), ("cylinder", "length"), ("core_shell_sphere", "radius")):
        model = load_model(name, platform="ocl")
        words = {f"{spread}_pd": 0.1, f"{spread}_pd_n": 60}
        for _ in range(rounds):
            values = [DirectModel(data, model)(**words) for data in (line, plane)]
        found += [name, digest(*values)]
    print(*found, "by", type(model).__name__)


def openmm(steps=200):
    """Molecular dynamics: argon in a box, and water-like charges, at constant energy."""
    import openmm
    from openmm import unit

    system = openmm.System()
    side, per = 3.0, 8
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(openmm.NonbondedForce.PME)
    force.setCutoffDistance(1.0)
    system.setDefaultPeriodicBoxVectors((side, 0, 0), (0, side, 0), (0, 0, side))
    positions = []
    for n in range(per**3):
        system.addParticle(39.9)
        force.addParticle(0.2 if n % 2 else -0.2, 0.34, 0.99)
        at = np.array([n % per, n // per % per, n // per**2]) * side / per
        positions.append(at + rng.random(3) * 0.02)
    system.addForce(force)
    integrator = openmm.VerletIntegrator(0.002)
    platform = openmm.Platform.getPlatform("OpenCL")
    context = openmm.Context(system, integrator, platform, {"Precision": "single", "DeterministicForces": "true"} if "DeterministicForces" in platform.getPropertyNames() else {"Precision": "single"})
    context.setPositions(positions * unit.nanometer)
    context.setVelocitiesToTemperature(120, 7)
    for _ in range(10):
        integrator.step(steps // 10)
        state = context.getState(getEnergy=True)
    state = context.getState(getEnergy=True, getPositions=True)
    places = np.array(state.getPositions().value_in_unit(unit.nanometer))
    print("potential", state.getPotentialEnergy(), "positions", digest(places))


def lightgbm(trees=15):
    """Gradient-boosted trees, trained on the device."""
    import lightgbm as lgb

    x = rng.random((8000, 28)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] + 0.3 * np.sin(9 * x[:, 2]) + 0.05 * rng.standard_normal(8000) > 0.5).astype(int)
    words = {"objective": "binary", "device_type": "gpu", "num_leaves": 31, "max_bin": 63, "verbose": -1, "seed": 3, "num_threads": 1, "gpu_use_dp": True}
    model = lgb.train(words, lgb.Dataset(x, y), trees)
    print("predictions", digest(model.predict(x)), "trees", model.num_trees())


def tinygrad(steps=12):
    """A small network, trained: tinygrad makes its kernels itself."""
    os.environ.setdefault("CL", "1")
    os.environ.setdefault("DEV", "CL")
    os.environ.setdefault("CACHELEVEL", "0")
    os.environ.setdefault("TRAINING", "1")
    from tinygrad import Tensor, nn

    Tensor.manual_seed(3)

    class Net:
        def __init__(self):
            self.a, self.b = nn.Conv2d(1, 8, 5), nn.Linear(8 * 10 * 10, 10)

        def __call__(self, x):
            return self.b(self.a(x).relu().max_pool2d().flatten(1))

    net = Net()
    optimiser = nn.optim.SGD(nn.state.get_parameters(net), lr=0.05)
    x, y = Tensor(rng.random((64, 1, 24, 24)).astype(np.float32)), Tensor(rng.integers(0, 10, 64).astype(np.int32))
    losses = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = net(x).sparse_categorical_crossentropy(y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    print("losses", losses[0], losses[-1], digest(np.array(losses, dtype=np.float32)))


def pyvkfft(rounds=40):
    """VkFFT: transforms of one to three dimensions."""
    import pyopencl as cl
    import pyopencl.array
    from pyvkfft.fft import fftn, ifftn

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    found = []
    for shape in ((1 << 15,), (128, 128), (32, 32, 32)):
        there = cl.array.to_device(queue, rng.random(shape).astype(np.complex64))
        for _ in range(rounds):
            there = ifftn(fftn(there, cl_queue=queue), cl_queue=queue)
        found += ["x".join(map(str, shape)), digest(there.get())]
    print(*found)


def gpyfft(rounds=40):
    """clFFT: transforms of two dimensions."""
    import pyopencl as cl
    import pyopencl.array
    from gpyfft.fft import FFT

    context = cl.create_some_context(interactive=False)
    queue = cl.CommandQueue(context)
    there = cl.array.to_device(queue, rng.random((256, 256)).astype(np.complex64))
    transform = FFT(context, queue, there, axes=(1, 0))
    for _ in range(rounds):
        for forward in (True, False):
            for event in transform.enqueue(forward):
                event.wait()
    print("256x256", digest(there.get()))


if __name__ == "__main__":
    {name: of for name, of in list(globals().items()) if callable(of)}[sys.argv[1]]()

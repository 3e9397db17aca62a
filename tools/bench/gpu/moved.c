// moved [SECONDS=3] [SCALE=1]: kernels whose traffic with memory is known in closed form, one after the other for so long each, to judge
// bytes that counters see: a copy, a 5-point stencil, and matrix products whose matrices no cache holds any more when they come
// round again. Prints for each kernel `moves NAME BYTES`: what a launch has to move at least, each byte read or written once.
// Device: the first GPU, else any; SCALE shrinks buffers (a CPU wants 0.01).
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *SOURCE =
    "#define T 16\n"
    "kernel void copy(global const float4 *a, global float4 *b, global float4 *c, int n, int at) {\n"
    "  int i = get_global_id(0); b[i] = a[i]; }\n"
    "kernel void stencil(global const float *a, global float *b, global float *c, int n, int at) {\n"
    "  int x = get_global_id(0), y = get_global_id(1);\n"
    "  int l = max(x - 1, 0), r = min(x + 1, n - 1), u = max(y - 1, 0), d = min(y + 1, n - 1);\n"
    "  b[y * n + x] = 0.2f * (a[y * n + x] + a[y * n + l] + a[y * n + r] + a[u * n + x] + a[d * n + x]); }\n"
    // n x n by n x T, as wide as one group: it asks for its matrices once.
    "kernel void thin_product(global const float *a, global const float *b, global float *c, int n, int at) {\n"
    "  local float p[T][T], q[T][T]; a += (size_t)at * n * n; c += (size_t)at * n * T;\n"
    "  int x = get_global_id(0), y = get_global_id(1), i = get_local_id(0), j = get_local_id(1); float s = 0;\n"
    "  for (int t = 0; t < n; t += T) {\n"
    "    p[j][i] = a[(size_t)y * n + t + i]; q[j][i] = b[(t + j) * T + x]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (int k = 0; k < T; k++) s = fma(p[j][k], q[k][i], s);\n"
    "    barrier(CLK_LOCAL_MEM_FENCE); }\n"
    "  c[y * T + x] = s; }\n"
    "kernel void product(global const float *a, global const float *b, global float *c, int n, int at) {\n"
    "  local float p[T][T], q[T][T]; size_t whole = (size_t)at * n * n; a += whole; b += whole; c += whole;\n"
    "  int x = get_global_id(0), y = get_global_id(1), i = get_local_id(0), j = get_local_id(1); float s = 0;\n"
    "  for (int t = 0; t < n; t += T) {\n"
    "    p[j][i] = a[y * n + t + i]; q[j][i] = b[(t + j) * n + x]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (int k = 0; k < T; k++) s = fma(p[j][k], q[k][i], s);\n"
    "    barrier(CLK_LOCAL_MEM_FENCE); }\n"
    "  c[y * n + x] = s; }\n";

#define CHECK(what, code) \
    do { \
        cl_int code_ = (code); \
        if (code_) { fprintf(stderr, "%s: error %d\n", what, code_); exit(1); } \
    } while (0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 3, scale = argc > 2 ? atof(argv[2]) : 1;
    cl_platform_id platforms[16];
    cl_uint found = 0;
    CHECK("clGetPlatformIDs", clGetPlatformIDs(16, platforms, &found));
    cl_device_id device = NULL;
    for (int any = 0; any < 2 && !device; any++) {
        for (cl_uint i = 0; i < found && !device; i++) {
            clGetDeviceIDs(platforms[i], any ? CL_DEVICE_TYPE_ALL : CL_DEVICE_TYPE_GPU, 1, &device, NULL);
        }
    }
    if (!device) {
        fprintf(stderr, "no OpenCL device\n");
        return 1;
    }
    cl_int code;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    CHECK("clCreateContext", code);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    CHECK("clCreateCommandQueue", code);
    cl_program program = clCreateProgramWithSource(context, 1, &SOURCE, NULL, &code);
    CHECK("clCreateProgramWithSource", code);
    CHECK("clBuildProgram", clBuildProgram(program, 1, &device, "", NULL, NULL));
    const size_t side = scale < 1 ? 1024 : 16384, n = scale < 1 ? 256 : 2048;
    // A GiB each: more than any cache, and a whole number of matrices.
    const size_t bytes = side * side * sizeof(float);
    const int matrices = (int)(bytes / (n * n * sizeof(float)));
    cl_mem buffers[3];
    for (int i = 0; i < 3; i++) {
        const float half = 0.5f;
        buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &code);
        CHECK("clCreateBuffer", code);
        CHECK("clEnqueueFillBuffer", clEnqueueFillBuffer(queue, buffers[i], &half, sizeof half, 0, bytes, 0, NULL, NULL));
    }
    const struct {
        const char *name;
        cl_uint dimensions;
        size_t global[2], local[2];
        int n;
        double moves;
    } kernels[] = {
        {"copy", 1, {bytes / 16, 1}, {256, 1}, 0, 2.0 * (double)bytes},
        {"stencil", 2, {side, side}, {64, 4}, (int)side, 2.0 * (double)bytes},
        {"thin_product", 2, {16, n}, {16, 16}, (int)n, 4.0 * (double)(n * n + 2 * n * 16)},
        {"product", 2, {n, n}, {16, 16}, (int)n, 12.0 * (double)(n * n)},
    };
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        cl_kernel kernel = clCreateKernel(program, kernels[k].name, &code);
        CHECK(kernels[k].name, code);
        printf("moves %s %.0f\n", kernels[k].name, kernels[k].moves);
        unsigned long launches = 0;
        for (int i = 0; i < 3; i++) {
            CHECK("clSetKernelArg", clSetKernelArg(kernel, (cl_uint)i, sizeof(cl_mem), &buffers[i]));
        }
        CHECK("clSetKernelArg", clSetKernelArg(kernel, 3, sizeof(int), &kernels[k].n));
        for (const double from = now(); now() - from < seconds;) {
            for (int i = 0; i < 16; i++, launches++) {
                const int at = (int)(launches % (unsigned long)matrices);
                CHECK("clSetKernelArg", clSetKernelArg(kernel, 4, sizeof at, &at));
                CHECK(kernels[k].name, clEnqueueNDRangeKernel(queue, kernel, kernels[k].dimensions, NULL, kernels[k].global, kernels[k].local, 0, NULL, NULL));
            }
            CHECK("clFinish", clFinish(queue));
        }
        printf("%s %lu launches\n", kernels[k].name, launches);
        clReleaseKernel(kernel);
    }
    for (int i = 0; i < 3; i++) {
        clReleaseMemObject(buffers[i]);
    }
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return 0;
}

// kernels [LAUNCHES=20] [SCALE=1] [GROUP=0] [OPERANDS=random] [ROOM=0]: kernels of common kinds, each in two sizes, to judge what models predict of them: matrix products,
// streams, stencils, transposition, reduction, scan, histogram, sparse product, particles, fractals, hashing, sorting steps,
// in single and double precision. Every kernel is launched LAUNCHES times in a row; sizes grow with SCALE (a CPU wants 0.02).
// With GROUP, a multiple of 16, only kernels that fit any size of groups are launched, in groups of so many items (16 wide in a plane).
// Buffers begin with random numbers of [0, 1), or with 0.5 throughout if OPERANDS is `equal`: what operands do to power.
// With ROOM, groups take so many bytes of local memory more, which they do not use: what occupancy does to time.
// Prints the device, and a sum of each result so that nothing is left out. Device: the first GPU, else any.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *SOURCE =
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "#define T 16\n"
    "kernel void gemm_naive(global const float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  int x = get_global_id(0), y = get_global_id(1); float s = 0;\n"
    "  for (int k = 0; k < n; k++) s = fma(a[y * n + k], b[k * n + x], s);\n"
    "  c[y * n + x] = s; }\n"
    "kernel void gemm_tiled(global const float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  local float p[T][T], q[T][T];\n"
    "  int x = get_global_id(0), y = get_global_id(1), i = get_local_id(0), j = get_local_id(1); float s = 0;\n"
    "  for (int t = 0; t < n; t += T) {\n"
    "    p[j][i] = a[y * n + t + i]; q[j][i] = b[(t + j) * n + x]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    for (int k = 0; k < T; k++) s = fma(p[j][k], q[k][i], s);\n"
    "    barrier(CLK_LOCAL_MEM_FENCE); }\n"
    "  c[y * n + x] = s; }\n"
    "kernel void axpy(global const float *x, global float *y, global float *z, int n ROOM) {\n"
    "  int i = get_global_id(0); y[i] = fma(1.5f, x[i], y[i]); }\n"
    "kernel void axpy_double(global const double *x, global float *y, global double *z, int n ROOM) {\n"
    "  int i = get_global_id(0); z[i] = fma(1.5, x[i], z[i]); }\n"
    "kernel void triad4(global const float4 *a, global const float4 *b, global float4 *c, int n ROOM) {\n"
    "  int i = get_global_id(0); c[i] = fma((float4)(3.0f), b[i], a[i]); }\n"
    "kernel void stencil5(global const float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  int x = get_global_id(0), y = get_global_id(1);\n"
    "  int l = max(x - 1, 0), r = min(x + 1, n - 1), u = max(y - 1, 0), d = min(y + 1, n - 1);\n"
    "  c[y * n + x] = 0.2f * (a[y * n + x] + a[y * n + l] + a[y * n + r] + a[u * n + x] + a[d * n + x]); }\n"
    "kernel void stencil5_double(global const double *a, global const float *b, global double *c, int n ROOM) {\n"
    "  int x = get_global_id(0), y = get_global_id(1);\n"
    "  int l = max(x - 1, 0), r = min(x + 1, n - 1), u = max(y - 1, 0), d = min(y + 1, n - 1);\n"
    "  c[y * n + x] = 0.2 * (a[y * n + x] + a[y * n + l] + a[y * n + r] + a[u * n + x] + a[d * n + x]); }\n"
    "kernel void transpose(global const float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  int x = get_global_id(0), y = get_global_id(1); c[x * n + y] = a[y * n + x]; }\n"
    "kernel void transpose_tiled(global const float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  local float t[T][T + 1]; int i = get_local_id(0), j = get_local_id(1);\n"
    "  int x = get_group_id(0) * T, y = get_group_id(1) * T;\n"
    "  t[j][i] = a[(y + j) * n + x + i]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  c[(x + j) * n + y + i] = t[i][j]; }\n"
    "kernel void reduce(global const float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  local float s[256]; int l = get_local_id(0); float v = 0;\n"
    "  for (int k = 0; k < 8; k++) v += a[get_global_id(0) + k * (int)get_global_size(0)];\n"
    "  s[l] = v; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  for (int h = 128; h > 0; h /= 2) { if (l < h) s[l] += s[l + h]; barrier(CLK_LOCAL_MEM_FENCE); }\n"
    "  if (l == 0) c[get_group_id(0)] = s[0]; }\n"
    "kernel void scan(global const float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  local float s[256]; int l = get_local_id(0); s[l] = a[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  for (int h = 1; h < 256; h *= 2) { float v = l >= h ? s[l - h] : 0; barrier(CLK_LOCAL_MEM_FENCE); s[l] += v;\n"
    "    barrier(CLK_LOCAL_MEM_FENCE); }\n"
    "  c[get_global_id(0)] = s[l]; }\n"
    "kernel void histogram(global const float *a, global const float *b, global int *c, int n ROOM) {\n"
    "  local int h[256]; int l = get_local_id(0); h[l] = 0; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "  uint x = get_global_id(0) * 2654435761u;\n"
    "  for (int k = 0; k < 16; k++) { x = x * 1664525u + 1013904223u; atomic_inc(&h[x >> 24]); }\n"
    "  barrier(CLK_LOCAL_MEM_FENCE); atomic_add(&c[l], h[l]); }\n"
    "kernel void sparse(global const float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  int i = get_global_id(0); float s = 0;\n"
    "  for (int k = 0; k < 16; k++) s = fma(a[i * 16 + k], b[(i * 61 + k * 977) & (n - 1)], s);\n"
    "  c[i] = s; }\n"
    "kernel void gather(global const float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  uint i = get_global_id(0); c[i] = a[(i * 2654435761u) & (uint)(n - 1)]; }\n"
    "kernel void bodies(global const float4 *p, global const float *b, global float4 *f, int n ROOM) {\n"
    "  int i = get_global_id(0); float4 me = p[i]; float3 s = 0;\n"
    "  for (int k = 0; k < 1024; k++) { float3 d = p[k].xyz - me.xyz; float r = rsqrt(dot(d, d) + 1e-3f);\n"
    "    s += d * (p[k].w * r * r * r); }\n"
    "  f[i] = (float4)(s, 0); }\n"
    "kernel void mandelbrot(global const float *a, global const float *b, global int *c, int n ROOM) {\n"
    "  int x = get_global_id(0), y = get_global_id(1); float u = 3.0f * x / n - 2.2f, v = 2.4f * y / n - 1.2f;\n"
    "  float p = 0, q = 0; int k = 0;\n"
    "  for (; k < 256 && p * p + q * q < 4; k++) { float t = p * p - q * q + u; q = 2 * p * q + v; p = t; }\n"
    "  c[y * n + x] = k; }\n"
    "kernel void collatz(global const float *a, global const float *b, global int *c, int n ROOM) {\n"
    "  uint x = get_global_id(0) + 1; int k = 0;\n"
    "  while (x != 1 && k < 400) { x = x & 1 ? 3 * x + 1 : x >> 1; k++; } c[get_global_id(0)] = k; }\n"
    "kernel void hash(global const float *a, global const float *b, global uint *c, int n ROOM) {\n"
    "  uint x = get_global_id(0), y = x ^ 0x5bd1e995u;\n"
    "  for (int k = 0; k < 256; k++) { x = rotate(x ^ y, 13u) + 0x9e3779b9u; y = rotate(y + x, 7u) ^ (x >> 3); }\n"
    "  c[get_global_id(0)] = x + y; }\n"
    "kernel void polynomial(global const double *a, global const float *b, global double *c, int n ROOM) {\n"
    "  int i = get_global_id(0); double x = i * 1e-9, s = 1;\n"
    "  for (int k = 0; k < 128; k++) s = fma(s, x, 1.0 / 3); c[i] = s; }\n"
    "kernel void waves(global const float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  int i = get_global_id(0); float x = i * 1e-3f, s = 0;\n"
    "  for (int k = 0; k < 32; k++) s += native_sin(x * k) * native_exp(-s); c[i] = s; }\n"
    "kernel void bitonic(global float *a, global const float *b, global float *c, int n ROOM) {\n"
    "  int i = get_global_id(0), j = i ^ 64; if (j > i) { float p = a[i], q = a[j]; bool up = (i & 256) == 0;\n"
    "    if ((p > q) == up) { a[i] = q; a[j] = p; } } }\n";

enum { LINE, PLANE };
// Name, line or plane, items (of a side) of the two sizes, group (of a side), whether groups may be of any size, bytes that an
// item has of each buffer: a kernel gets no more than it uses, as those of applications.
static const struct {
    const char *name;
    int shape;
    double sizes[2];
    size_t group;
    int any;
    int each[3];
} KERNELS[] = {
    {"gemm_naive", PLANE, {1024, 2048}, 16, 1, {4, 4, 4}}, {"gemm_tiled", PLANE, {1024, 2048}, 16, 0, {4, 4, 4}},
    {"axpy", LINE, {1 << 22, 1 << 26}, 256, 1, {4, 4, 0}}, {"axpy_double", LINE, {1 << 22, 1 << 25}, 256, 1, {8, 0, 8}},
    {"triad4", LINE, {1 << 20, 1 << 24}, 256, 1, {16, 16, 16}}, {"stencil5", PLANE, {2048, 8192}, 16, 1, {4, 0, 4}},
    {"stencil5_double", PLANE, {2048, 4096}, 16, 1, {8, 0, 8}}, {"transpose", PLANE, {2048, 8192}, 16, 1, {4, 0, 4}},
    {"transpose_tiled", PLANE, {2048, 8192}, 16, 0, {4, 0, 4}}, {"reduce", LINE, {1 << 19, 1 << 23}, 256, 0, {32, 0, 4}},
    {"scan", LINE, {1 << 22, 1 << 25}, 256, 0, {4, 0, 4}}, {"histogram", LINE, {1 << 20, 1 << 23}, 256, 0, {0, 0, 0}},
    {"sparse", LINE, {1 << 18, 1 << 21}, 128, 1, {64, 4, 4}}, {"gather", LINE, {1 << 22, 1 << 25}, 256, 1, {4, 0, 4}},
    {"bodies", LINE, {1 << 16, 1 << 18}, 128, 1, {16, 0, 16}}, {"mandelbrot", PLANE, {1024, 4096}, 16, 1, {0, 0, 4}},
    {"collatz", LINE, {1 << 20, 1 << 23}, 256, 1, {0, 0, 4}}, {"hash", LINE, {1 << 20, 1 << 24}, 256, 1, {0, 0, 4}},
    {"polynomial", LINE, {1 << 20, 1 << 23}, 256, 1, {0, 0, 8}}, {"waves", LINE, {1 << 20, 1 << 24}, 256, 1, {0, 0, 4}},
    {"bitonic", LINE, {1 << 22, 1 << 25}, 256, 1, {4, 0, 0}},
};

#define CHECK(what, code) \
    do { \
        cl_int code_ = (code); \
        if (code_) { fprintf(stderr, "%s: error %d\n", what, code_); exit(1); } \
    } while (0)

int main(int argc, char **argv)
{
    const int launches = argc > 1 ? atoi(argv[1]) : 20;
    const double scale = argc > 2 ? atof(argv[2]) : 1;
    const size_t group = argc > 3 ? (size_t)atoi(argv[3]) : 0;
    const int equal = argc > 4 && !strcmp(argv[4], "equal");
    const size_t room = argc > 5 ? (size_t)atoi(argv[5]) : 0;
    cl_platform_id platforms[16];
    cl_uint count = 0;
    CHECK("clGetPlatformIDs", clGetPlatformIDs(16, platforms, &count));
    cl_device_id device = NULL;
    for (int any = 0; any < 2 && !device; any++) {
        for (cl_uint i = 0; i < count && !device; i++) {
            clGetDeviceIDs(platforms[i], any ? CL_DEVICE_TYPE_ALL : CL_DEVICE_TYPE_GPU, 1, &device, NULL);
        }
    }
    if (!device) {
        fprintf(stderr, "no OpenCL device\n");
        return 1;
    }
    char text[256];
    CHECK("clGetDeviceInfo", clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof text, text, NULL));
    printf("%s\n", text);
    cl_int code;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    CHECK("clCreateContext", code);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    CHECK("clCreateCommandQueue", code);
    const char *texts[2] = {room ? "#define ROOM , local char *room\n" : "#define ROOM\n", SOURCE};
    cl_program program = clCreateProgramWithSource(context, 2, texts, NULL, &code);
    CHECK("clCreateProgramWithSource", code);
    CHECK("clBuildProgram", clBuildProgram(program, 1, &device, "", NULL, NULL));
    // As large as the largest kernel needs: 2^26 floats.
    const size_t bytes = (size_t)(4.0 * (1 << 26) * (scale < 1 ? fmax(scale, 0.05) : 1)) & ~(size_t)255;
    cl_mem buffers[3];
    float *numbers = malloc(bytes);
    unsigned state = 2463534242u;
    for (size_t i = 0; i < bytes / sizeof *numbers; i++) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        numbers[i] = equal ? 0.5f : (float)(state >> 8) * 0x1p-24f;
    }
    for (int i = 0; i < 3; i++) {
        buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &code);
        CHECK("clCreateBuffer", code);
        CHECK("clEnqueueWriteBuffer", clEnqueueWriteBuffer(queue, buffers[i], CL_TRUE, 0, bytes, numbers, 0, NULL, NULL));
    }
    free(numbers);
    for (size_t k = 0; k < sizeof KERNELS / sizeof *KERNELS; k++) {
        if (group && !KERNELS[k].any) {
            continue;
        }
        cl_kernel kernel = clCreateKernel(program, KERNELS[k].name, &code);
        CHECK(KERNELS[k].name, code);
        const int plane = KERNELS[k].shape == PLANE;
        for (int s = 0; s < 2; s++) {
            // Powers of two, so that masks and tiles fit.
            const double wanted = KERNELS[k].sizes[s] * (plane ? sqrt(scale) : scale);
            size_t n = 64;
            while (n * 2 <= wanted) {
                n *= 2;
            }
            n = n < 256 && !plane ? 256 : n;
            const size_t global[2] = {n, n}, side_of = KERNELS[k].group;
            const size_t local[2] = {!group ? side_of : plane ? 16 : group, group ? group / 16 : side_of};
            const int side = (int)n;
            cl_mem parts[3];
            for (int i = 0; i < 3; i++) {
                const size_t used = n * (plane ? n : 1) * (size_t)KERNELS[k].each[i];
                const cl_buffer_region region = {0, used < 4096 ? 4096 : used < bytes ? used : bytes};
                parts[i] = clCreateSubBuffer(buffers[i], CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
                CHECK("clCreateSubBuffer", code);
                CHECK("clSetKernelArg", clSetKernelArg(kernel, i, sizeof(cl_mem), &parts[i]));
            }
            CHECK("clSetKernelArg", clSetKernelArg(kernel, 3, sizeof side, &side));
            if (room) {
                CHECK("clSetKernelArg", clSetKernelArg(kernel, 4, room, NULL));
            }
            for (int i = 0; i < launches; i++) {
                CHECK(KERNELS[k].name,
                    clEnqueueNDRangeKernel(queue, kernel, plane ? 2 : 1, NULL, global, local, 0, NULL, NULL));
            }
            CHECK("clFinish", clFinish(queue));
            for (int i = 0; i < 3; i++) {
                clReleaseMemObject(parts[i]);
            }
        }
        float some[64];
        double sum = 0;
        CHECK("clEnqueueReadBuffer",
            clEnqueueReadBuffer(queue, buffers[2], CL_TRUE, 0, sizeof some, some, 0, NULL, NULL));
        for (int i = 0; i < 64; i++) {
            sum += isfinite(some[i]) ? some[i] : 0;
        }
        printf("%s %g\n", KERNELS[k].name, sum);
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

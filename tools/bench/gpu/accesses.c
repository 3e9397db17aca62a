// accesses: kernels whose accesses to memory lie in known ways, and what warps of 32 take of memory for them, counted on
// the host. Prints `truth KERNEL CLASS TRANSACTIONS` of one launch each, for `models.py --accesses`: pieces of 32 bytes of
// global memory that a warp touches, passes through 32 banks of 4 bytes of local memory.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 16, GROUP = 256, WARP = 32, SIDE = 256, MANY = 80 };

static const char *source =
    "kernel void strided(global const uint *in, global uint *out, uint step) {\n"
    "    uint i = get_global_id(0); out[i] = in[(i * step) & 65535]; }\n"
    "kernel void gather(global const uint *in, global const uint *at, global uint *out) {\n"
    "    uint i = get_global_id(0); out[i] = in[at[i]]; }\n"
    "kernel void scatter(global const uint *in, global const uint *at, global uint *out) {\n"
    "    uint i = get_global_id(0); out[at[i]] = in[i]; }\n"
    "kernel void guarded(global const uint *in, global const uint *at, global uint *out) {\n"
    "    uint i = get_global_id(0), j = at[i]; uint x = 0; if (j & 1) x = in[j]; out[i] = x; }\n"
    "kernel void wide(global const float4 *in, global float4 *out, uint step) {\n"
    "    uint i = get_global_id(0); out[i] = in[(i * step) & 65535]; }\n"
    "kernel void transpose(global const float *in, global float *out) {\n"
    "    uint x = get_global_id(0), y = get_global_id(1); out[x * 256 + y] = in[y * 256 + x]; }\n"
    "kernel void trips(global const uint *in, global const uint *at, global uint *out) {\n"
    "    uint i = get_global_id(0), sum = 0; for (uint k = 0; k < (i & 7); k++) sum += in[(at[i] + k * 331) & 65535];\n"
    "    out[i] = sum; }\n"
    "kernel void many(global const uint *in, global const uint *at, global uint *out) {\n"
    "    uint i = get_global_id(0), j = at[i], sum = 0;\n"
    "    MANY_LOADS\n"
    "    out[i] = sum; }\n"
    "kernel void banks(global uint *out, uint step) {\n"
    "    local uint t[4096]; uint l = get_local_id(0); t[(l * step) & 4095] = l; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    out[get_global_id(0)] = t[((l ^ 5) * step) & 4095]; }\n"
    "kernel void banks8(global double *out, uint step) {\n"
    "    local double t[2048]; uint l = get_local_id(0); t[(l * step) & 2047] = l; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    out[get_global_id(0)] = t[((l ^ 5) * step) & 2047]; }\n"
    "kernel void banks16(global float4 *out, uint step) {\n"
    "    local float4 t[1024]; uint l = get_local_id(0); t[(l * step) & 1023] = (float4)(l); barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    out[get_global_id(0)] = t[((l ^ 5) * step) & 1023]; }\n"
    "kernel void bins(global const uint *at, global uint *out) {\n"
    "    local uint t[64]; uint l = get_local_id(0); if (l < 64) t[l] = 0; barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    atomic_add(&t[at[get_global_id(0)] & 63], l); barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (l < 64) atomic_add(&out[l], t[l]); }\n";

static cl_context context;
static cl_command_queue queue;
static cl_program program;
static cl_mem in, at, out;
static uint32_t random_at[N];

#define CHECK(code) do { cl_int got_ = (code); if (got_) { fprintf(stderr, "line %d: OpenCL error %d\n", __LINE__, got_); exit(1); } } while (0)

// Transactions of a warp whose lanes access `bytes` at these offsets; -1: the lane does not.
static unsigned pieces(const int64_t *offset)
{
    unsigned count = 0;
    for (int i = 0; i < WARP; i++) {
        int first = offset[i] >= 0;
        for (int j = 0; j < i && first; j++)
            first = offset[j] < 0 || offset[j] / 32 != offset[i] / 32;
        count += first;
    }
    return count;
}

static unsigned passes(const int64_t *offset, int bytes, int atomic)
{
    int lanes = bytes <= 4 ? 32 : 128 / bytes, words = bytes <= 4 ? 32 : 128 / bytes, sum = 0;
    int width = bytes < 4 ? 4 : bytes;
    for (int group = 0; group < WARP; group += lanes) {
        int most = 0;
        for (int bank = 0; bank < words; bank++) {
            int here = 0;
            for (int i = group; i < group + lanes; i++) {
                int counts = offset[i] >= 0 && offset[i] / width % words == bank;
                for (int j = group; j < i && counts && !atomic; j++)
                    counts = offset[j] < 0 || offset[j] / width != offset[i] / width;
                here += counts;
            }
            most = here > most ? here : most;
        }
        sum += most;
    }
    return (unsigned)sum;
}

static void launch(const char *name, int memories, const cl_mem *memory, int step, int dimensions)
{
    cl_int err;
    cl_kernel kernel = clCreateKernel(program, name, &err);
    CHECK(err);
    for (int i = 0; i < memories; i++)
        CHECK(clSetKernelArg(kernel, (cl_uint)i, sizeof *memory, &memory[i]));
    cl_uint by = (cl_uint)step;
    if (step)
        CHECK(clSetKernelArg(kernel, (cl_uint)memories, sizeof by, &by));
    size_t line[2] = {N, 0}, square[2] = {SIDE, SIDE}, group[2] = {GROUP, 1};
    CHECK(clEnqueueNDRangeKernel(queue, kernel, (cl_uint)dimensions, NULL, dimensions == 1 ? line : square, group, 0, NULL, NULL));
    CHECK(clFinish(queue));
    CHECK(clReleaseKernel(kernel));
}

// Adds up over all warps what `of` says of lane and item.
typedef int64_t (*offsets)(int item, int parameter);
static uint64_t all(offsets of, int parameter, int bytes, int local, int atomic)
{
    uint64_t sum = 0;
    for (int warp = 0; warp < N; warp += WARP) {
        int64_t offset[WARP];
        for (int i = 0; i < WARP; i++)
            offset[i] = of(warp + i, parameter);
        sum += local ? passes(offset, bytes, atomic) : pieces(offset);
    }
    return sum;
}

static int64_t strided4(int i, int step) { return 4ll * ((int64_t)i * step % N); }
static int64_t strided16(int i, int step) { return 16ll * ((int64_t)i * step % N); }
static int64_t gathered(int i, int by) { return 4ll * ((random_at[i] + (unsigned)by) % N); }
static int64_t odd(int i, int by) { (void)by; return random_at[i] & 1 ? 4ll * random_at[i] : -1; }
static int64_t column(int i, int by) { (void)by; return 4ll * (i % SIDE * SIDE + i / SIDE); }
static int64_t trip(int i, int k) { return k < (i & 7) ? 4ll * ((random_at[i] + (unsigned)k * 331) % N) : -1; }
static int64_t trip_at(int i, int k) { return k < (i & 7) ? 4ll * i : -1; }
static int64_t local4(int i, int step) { return 4ll * (i % GROUP * step & 4095); }
static int64_t local4x(int i, int step) { return 4ll * ((i % GROUP ^ 5) * step & 4095); }
static int64_t local8(int i, int step) { return 8ll * (i % GROUP * step & 2047); }
static int64_t local8x(int i, int step) { return 8ll * ((i % GROUP ^ 5) * step & 2047); }
static int64_t local16(int i, int step) { return 16ll * (i % GROUP * step & 1023); }
static int64_t local16x(int i, int step) { return 16ll * ((i % GROUP ^ 5) * step & 1023); }
static int64_t bin(int i, int by) { (void)by; return 4ll * (random_at[i] & 63); }
static int64_t first64(int i, int by) { (void)by; return i % GROUP < 64 ? 4ll * (i % GROUP) : -1; }

static void truth(const char *kernel, const char *class, uint64_t transactions)
{
    printf("truth %s %s %llu\n", kernel, class, (unsigned long long)transactions);
}

int main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int err;
    CHECK(clGetPlatformIDs(1, &platform, NULL));
    CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL));
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &err);
    CHECK(err);
    queue = clCreateCommandQueue(context, device, 0, &err);
    CHECK(err);
    static char loads[MANY * 48 + 64];
    char *end = loads + sprintf(loads, "-DMANY_LOADS=");
    for (int k = 0; k < MANY; k++)
        end += sprintf(end, "sum+=in[(j+%d)&65535];", k * 97);
    program = clCreateProgramWithSource(context, 1, &source, NULL, &err);
    CHECK(err);
    if (clBuildProgram(program, 1, &device, loads, NULL, NULL)) {
        static char text[1 << 16];
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof text - 1, text, NULL);
        fprintf(stderr, "%s\n", text);
        return 1;
    }
    uint32_t state = 2463534242u;
    for (int i = 0; i < N; i++) {
        state ^= state << 13, state ^= state >> 17, state ^= state << 5;
        random_at[i] = state % N;
    }
    static float zeros[N * 4]; // As many of four components.
    in = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros, &err);
    CHECK(err);
    out = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros, &err);
    CHECK(err);
    at = clCreateBuffer(context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, sizeof random_at, random_at, &err);
    CHECK(err);
    const uint64_t together = N / 8;

    launch("strided", 2, (cl_mem[]){in, out}, 7, 1);
    truth("strided", "load-global", all(strided4, 7, 4, 0, 0));
    truth("strided", "store-global", together);
    launch("gather", 3, (cl_mem[]){in, at, out}, 0, 1);
    truth("gather", "load-global", together + all(gathered, 0, 4, 0, 0));
    truth("gather", "store-global", together);
    launch("scatter", 3, (cl_mem[]){in, at, out}, 0, 1);
    truth("scatter", "load-global", 2 * together);
    truth("scatter", "store-global", all(gathered, 0, 4, 0, 0));
    launch("guarded", 3, (cl_mem[]){in, at, out}, 0, 1);
    truth("guarded", "load-global", together + all(odd, 0, 4, 0, 0));
    launch("wide", 2, (cl_mem[]){in, out}, 3, 1);
    truth("wide", "load-global", all(strided16, 3, 16, 0, 0));
    truth("wide", "store-global", N / 2);
    launch("transpose", 2, (cl_mem[]){in, out}, 0, 2);
    truth("transpose", "load-global", together);
    truth("transpose", "store-global", all(column, 0, 4, 0, 0));
    launch("trips", 3, (cl_mem[]){in, at, out}, 0, 1);
    uint64_t loaded = 0, asked = 0;
    for (int k = 0; k < 7; k++) {
        loaded += all(trip, k, 4, 0, 0);
        asked += all(trip_at, k, 4, 0, 0);
    }
    // The index may be read once before the loop, or in each turn.
    printf("either trips load-global %llu %llu %llu\n", (unsigned long long)(loaded + asked), (unsigned long long)(loaded + all(trip_at, 0, 4, 0, 0)),
           (unsigned long long)(loaded + together));
    launch("many", 3, (cl_mem[]){in, at, out}, 0, 1);
    loaded = together;
    for (int k = 0; k < MANY; k++)
        loaded += all(gathered, k * 97, 4, 0, 0);
    truth("many", "load-global", loaded);
    launch("banks", 1, (cl_mem[]){out}, 32, 1);
    truth("banks", "store-local", all(local4, 32, 4, 1, 0));
    truth("banks", "load-local", all(local4x, 32, 4, 1, 0));
    launch("banks8", 1, (cl_mem[]){out}, 6, 1);
    truth("banks8", "store-local", all(local8, 6, 8, 1, 0));
    truth("banks8", "load-local", all(local8x, 6, 8, 1, 0));
    launch("banks16", 1, (cl_mem[]){out}, 2, 1);
    truth("banks16", "store-local", all(local16, 2, 16, 1, 0));
    truth("banks16", "load-local", all(local16x, 2, 16, 1, 0));
    launch("bins", 2, (cl_mem[]){at, out}, 0, 1);
    truth("bins", "atomic-local", all(bin, 0, 4, 1, 1));
    truth("bins", "atomic-global", all(first64, 0, 4, 0, 0));
    return 0;
}

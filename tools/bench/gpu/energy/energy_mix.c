// energy_mix: kernels whose power differs, alone and in mixes, to judge joules per kernel on a real GPU.
//
//   energy_mix alone KERNEL SECONDS    one kernel again and again: what it draws by itself
//   energy_mix truth SECONDS           each of the four by itself for so long in all, half a second at a time with as much of
//                                      mix before each, so that all are as warm as in a mix and no voltage has followed the
//                                      kernel yet (an H200 raises it after 0.6 s of FP64); prints when each began and ended
//   energy_mix truth-eight SECONDS     the same with the eight
//   energy_mix mix SECONDS SEED        the four kernels in random proportions that change every 150 ms
//   energy_mix steady-mix SECONDS      the four kernels in one fixed order: their shares cannot be told apart
//   energy_mix eight SECONDS SEED      eight kernels whose lengths span 10 microseconds to 50 milliseconds, as mix
//   energy_mix list                    names of all kernels
//
// Four: fp32 (compute-bound), fp64 (compute-bound), memory (streams through memory), sparse (a few work-groups only),
// 50 to 200 microseconds each. Eight: e_* of the same kinds. Lengths are found by trial at the start, or ENERGY_MIX_ROUNDS
// tells the rounds of each kernel, comma-separated; ENERGY_MIX_MB limits buffers; ENERGY_MIX_DEVICE picks a GPU by number. Each run begins and ends with a second in which the context is there and nothing runs: the floor.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                                                                            \
    do {                                                                                                                       \
        cl_int check_error = (call);                                                                                           \
        if (check_error != CL_SUCCESS) {                                                                                       \
            fprintf(stderr, "energy_mix: %s: error %d (line %d)\n", #call, check_error, __LINE__);                             \
            exit(1);                                                                                                           \
        }                                                                                                                      \
    } while (0)

// One body per kind, one kernel name per row of the table below.
static const char *const bodies =
    "#define FP32(NAME) kernel void NAME(global float *a, global float *b, int n) { size_t i = get_global_id(0);\\\n"
    "  float x = i * 1e-7f, y = x + 1.0f, z = x + 2.0f, w = x + 3.0f;\\\n"
    "  for (int k = 0; k < n; k++) { x = fma(x, 0.999f, 0.5f); y = fma(y, 0.998f, 0.4f);\\\n"
    "    z = fma(z, 0.997f, 0.3f); w = fma(w, 0.996f, 0.2f); }\\\n"
    "  if (x + y + z + w == -1.0f) a[i] = x; }\n"
    "#define SPARSE(NAME) FP32(NAME)\n"
    "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#define REAL double\n#else\n#define REAL float\n#endif\n"
    "#define FP64(NAME) kernel void NAME(global float *a, global float *b, int n) { size_t i = get_global_id(0);\\\n"
    "  REAL x = i * 1e-7, y = x + 1.0, z = x + 2.0, w = x + 3.0;\\\n"
    "  for (int k = 0; k < n; k++) { x = fma(x, (REAL)0.999, (REAL)0.5); y = fma(y, (REAL)0.998, (REAL)0.4);\\\n"
    "    z = fma(z, (REAL)0.997, (REAL)0.3); w = fma(w, (REAL)0.996, (REAL)0.2); }\\\n"
    "  if (x + y + z + w == (REAL)-1.0) a[i] = (float)x; }\n"
    "#define MEMORY(NAME) kernel void NAME(global float *a, global float *b, int n) { size_t i = get_global_id(0);\\\n"
    "  size_t step = get_global_size(0);\\\n"
    "  for (int k = 0; k < n; k++) { size_t at = (i + (size_t)k * step) & MASK; a[at] = b[at] * 1.0001f + 0.1f; } }\n";

enum kind { FP32, FP64, MEMORY, SPARSE };
static const char *const kind_names[] = {"FP32", "FP64", "MEMORY", "SPARSE"};

struct work {
    const char *name;
    enum kind kind;
    double target_us;
    cl_kernel kernel;
    size_t global, local;
    int rounds;
    double us;
    uint64_t launches;
};

static struct work works[] = {
    {"fp32", FP32, 120, 0, 0, 0, 0, 0, 0},        {"fp64", FP64, 80, 0, 0, 0, 0, 0, 0},
    {"memory", MEMORY, 199, 0, 0, 0, 0, 0, 0},    {"sparse", SPARSE, 50, 0, 0, 0, 0, 0, 0},
    {"e_fp32_20us", FP32, 20, 0, 0, 0, 0, 0, 0},  {"e_fp32_50ms", FP32, 50000, 0, 0, 0, 0, 0, 0},
    {"e_fp64_300us", FP64, 300, 0, 0, 0, 0, 0, 0},{"e_fp64_5ms", FP64, 5000, 0, 0, 0, 0, 0, 0},
    {"e_mem_100us", MEMORY, 100, 0, 0, 0, 0, 0, 0},{"e_mem_2ms", MEMORY, 2000, 0, 0, 0, 0, 0, 0},
    {"e_sparse_10us", SPARSE, 10, 0, 0, 0, 0, 0, 0},{"e_sparse_1ms", SPARSE, 1000, 0, 0, 0, 0, 0, 0},
};
enum { FOUR = 4, ALL = sizeof works / sizeof *works };

static struct work *first;
static cl_context context;
static cl_command_queue queue;
static double zero; // just before the first OpenCL call
static cl_mem a, b;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static uint64_t state;
static double uniform(void) // xorshift*, (0, 1)
{
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return ((double)((state * 2685821657736338717ull) >> 11) + 0.5) / 9007199254740992.0;
}

static void pause_for(double seconds)
{
    struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&t, NULL);
}

static void set_up(void)
{
    cl_platform_id platforms[16];
    cl_device_id devices[16], device;
    cl_uint count = 0, found = 0, wanted = 0;
    cl_int error;
    zero = now();
    CHECK(clGetPlatformIDs(16, platforms, &count));
    const char *choice = getenv("ENERGY_MIX_DEVICE");
    if (choice)
        wanted = (cl_uint)atoi(choice);
    for (cl_uint p = 0; p < count && p < 16 && !found; p++)
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_GPU, 16, devices, &found) != CL_SUCCESS)
            found = 0;
    // Without a GPU any device will do: the program is then a test of itself.
    for (cl_uint p = 0; p < count && p < 16 && !found; p++)
        if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &found) != CL_SUCCESS)
            found = 0;
    if (wanted >= found) {
        fprintf(stderr, "energy_mix: no device %u: %u found on %u platforms\n", wanted, found, count);
        exit(1);
    }
    device = devices[wanted];
    char name[128] = "";
    cl_uint units = 1;
    cl_ulong memory = 0, largest = 0;
    cl_device_type type = 0;
    CHECK(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL));
    size_t bytes = (size_t)1 << 20;
    if (getenv("ENERGY_MIX_MB"))
        largest = (cl_ulong)atoi(getenv("ENERGY_MIX_MB")) << 20;
    while (bytes * 8 <= memory && bytes * 2 <= largest && bytes < ((size_t)1 << (type & CL_DEVICE_TYPE_GPU ? 30 : 24)))
        bytes *= 2;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    CHECK(error);
    queue = clCreateCommandQueue(context, device, 0, &error);
    CHECK(error);
    a = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);
    CHECK(error);
    b = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);
    CHECK(error);
    static char source[1 << 14];
    strcpy(source, bodies);
    for (int i = 0; i < ALL; i++)
        snprintf(source + strlen(source), sizeof source - strlen(source), "%s(%s)\n", kind_names[works[i].kind], works[i].name);
    char options[64];
    snprintf(options, sizeof options, "-DMASK=%zuul", bytes / sizeof(float) - 1);
    const char *text = source;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    CHECK(error);
    error = clBuildProgram(program, 1, &device, options, NULL, NULL);
    if (error != CL_SUCCESS) {
        static char log[1 << 16];
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fprintf(stderr, "energy_mix: clBuildProgram: error %d\n%s\n", error, log);
        exit(1);
    }
    float zero = 0;
    CHECK(clEnqueueFillBuffer(queue, a, &zero, sizeof zero, 0, bytes, 0, NULL, NULL));
    CHECK(clEnqueueFillBuffer(queue, b, &zero, sizeof zero, 0, bytes, 0, NULL, NULL));
    for (int i = 0; i < ALL; i++) {
        struct work *w = &works[i];
        w->kernel = clCreateKernel(program, w->name, &error);
        CHECK(error);
        CHECK(clSetKernelArg(w->kernel, 0, sizeof a, &a));
        CHECK(clSetKernelArg(w->kernel, 1, sizeof b, &b));
        w->local = type & CL_DEVICE_TYPE_GPU ? (w->kind == SPARSE ? 64 : 256) : 1;
        size_t threads = type & CL_DEVICE_TYPE_GPU ? (size_t)units * 2048 : units;
        w->global = w->kind == SPARSE ? w->local * (units >= 64 ? 16 : 1) : threads;
    }
    printf("device %s, %u units, buffers of %zu MiB\n", name, units, bytes >> 20);
}

static void launch(struct work *w, cl_event *event)
{
    CHECK(clEnqueueNDRangeKernel(queue, w->kernel, 1, NULL, &w->global, &w->local, 0, NULL, event));
    w->launches++;
}

static double trial(struct work *w, int rounds, int times)
{
    CHECK(clSetKernelArg(w->kernel, 2, sizeof rounds, &rounds));
    launch(w, NULL);
    CHECK(clFinish(queue));
    double from = now();
    for (int i = 0; i < times; i++)
        launch(w, NULL);
    CHECK(clFinish(queue));
    return (now() - from) / times * 1e6;
}

static void calibrate(struct work *w)
{
    const char *told = getenv("ENERGY_MIX_ROUNDS");
    for (int i = 0; told && i < (int)(w - first); i++)
        if ((told = strchr(told, ',')))
            told++;
    if (told) {
        w->rounds = atoi(told);
        w->us = w->target_us;
        CHECK(clSetKernelArg(w->kernel, 2, sizeof w->rounds, &w->rounds));
        printf("kernel %s rounds %d length told\n", w->name, w->rounds);
        return;
    }
    // Long kernels first get long enough that a launch's own cost does not count, then are scaled.
    int rounds = 1;
    double us = trial(w, rounds, 4), base = us;
    while (us < 2000 && us < 8 * w->target_us + base && rounds < (1 << 28)) {
        rounds *= 2;
        us = trial(w, rounds, 4);
    }
    double per_round = us > base ? (us - base) / (rounds > 1 ? rounds - 1 : 1) : us / rounds;
    w->rounds = (int)fmax(1, w->target_us / fmax(per_round, 1e-9));
    for (int pass = 0; pass < 3; pass++) {
        int times = (int)fmax(2, fmin(100, 20000 / w->target_us));
        w->us = trial(w, w->rounds, times);
        double better = w->rounds * w->target_us / w->us;
        if (pass < 2)
            w->rounds = (int)fmin(fmax(1, better), 1 << 30);
    }
    printf("kernel %s rounds %d length %.1f us\n", w->name, w->rounds, w->us);
}

/// Launches what `pick` says for a while, two batches of some milliseconds in flight.
static void run(double seconds, struct work *(*pick)(double), double batch_us)
{
    cl_event last[2] = {NULL, NULL};
    double from = now();
    for (int turn = 0; now() - from < seconds; turn ^= 1) {
        if (last[turn]) {
            CHECK(clWaitForEvents(1, &last[turn]));
            CHECK(clReleaseEvent(last[turn]));
        }
        double filled = 0;
        while (filled < batch_us) {
            struct work *w = pick(now() - from);
            filled += w->us;
            launch(w, filled < batch_us ? NULL : &last[turn]);
        }
        CHECK(clFlush(queue));
    }
    CHECK(clFinish(queue));
    for (int i = 0; i < 2; i++)
        if (last[i])
            CHECK(clReleaseEvent(last[i]));
}

static struct work *one;
static int several, place;
static double weights[ALL], until;

static void phase(const char *name, double from, double to)
{
    // Seconds since the first OpenCL call, which is where a trace begins.
    printf("phase %s %.4f %.4f\n", name, from - zero, to - zero);
    fflush(stdout);
}

static struct work *pick_one(double at)
{
    (void)at;
    return one;
}

static struct work *pick_next(double at)
{
    (void)at;
    // The order repeats within the sensor's reach, each kernel for about the same time.
    static int left;
    if (left <= 0) {
        place = (place + 1) % several;
        left = (int)fmax(1, 400 / first[place].us);
    }
    left--;
    return &first[place];
}

static struct work *pick_random(double at)
{
    if (at >= until) {
        until = at + 0.150;
        // Squared exponentials: proportions that differ a lot from one stretch to the next.
        for (int i = 0; i < several; i++)
            weights[i] = pow(-log(uniform()), 2);
    }
    double sum = 0;
    for (int i = 0; i < several; i++)
        sum += weights[i] / first[i].us;
    double choice = uniform() * sum;
    for (int i = 0; i < several; i++)
        if ((choice -= weights[i] / first[i].us) <= 0)
            return &first[i];
    return &first[several - 1];
}

int main(int count, char **arguments)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *mode = count > 1 ? arguments[1] : "";
    if (!strcmp(mode, "list")) {
        for (int i = 0; i < ALL; i++)
            puts(works[i].name);
        return 0;
    }
    int alone = !strcmp(mode, "alone"), steady = !strcmp(mode, "steady-mix");
    int truth_eight = !strcmp(mode, "truth-eight"), truth = truth_eight || !strcmp(mode, "truth");
    int eight = truth_eight || !strcmp(mode, "eight");
    if (count < (alone ? 4 : 3) || !(alone || truth || eight || steady || !strcmp(mode, "mix"))) {
        fprintf(stderr, "usage: energy_mix alone KERNEL SECONDS | truth[-eight] SECONDS | mix SECONDS SEED | steady-mix SECONDS | eight SECONDS SEED | list\n");
        return 2;
    }
    double seconds = atof(arguments[alone ? 3 : 2]);
    state = 88172645463325252ull ^ (uint64_t)(count > 3 && !alone ? atoi(arguments[3]) : 1) * 0x9e3779b97f4a7c15ull;
    set_up();
    first = eight ? works + FOUR : works;
    several = eight ? ALL - FOUR : FOUR;
    if (alone) {
        for (int i = 0; i < ALL && !one; i++)
            if (!strcmp(works[i].name, arguments[2]))
                one = &works[i];
        if (!one) {
            fprintf(stderr, "energy_mix: no kernel %s; energy_mix list names them\n", arguments[2]);
            return 2;
        }
        first = one;
        several = 1;
    }
    for (int i = 0; i < several; i++)
        calibrate(&first[i]);
    for (int i = 0; i < several; i++)
        first[i].launches = 0;
    pause_for(1.0);
    double from = now();
    // Batches of at least the longest kernel, so that two in flight keep the device busy.
    double batch_us = 3000;
    if (truth) {
        run(6, pick_random, batch_us);
        for (int turn = 0; turn < several * (int)(seconds * 2 + 0.5); turn++) {
            until = 0;
            run(0.5, pick_random, batch_us);
            double began = now();
            one = &first[turn % several];
            run(0.5, pick_one, batch_us);
            phase(one->name, began, now());
        }
    } else {
        run(seconds, alone ? pick_one : steady ? pick_next : pick_random, batch_us);
    }
    double took = now() - from;
    phase(mode, from, from + took);
    pause_for(1.0);
    for (int i = 0; i < several; i++)
        printf("launches %s %llu\n", first[i].name, (unsigned long long)first[i].launches);
    printf("ran %.3f s\n", took);
    CHECK(clReleaseMemObject(a));
    CHECK(clReleaseMemObject(b));
    CHECK(clReleaseCommandQueue(queue));
    CHECK(clReleaseContext(context));
    return 0;
}

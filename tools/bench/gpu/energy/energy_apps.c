// energy_apps: applications that do the same thing again and again, to judge joules per launch on a real GPU.
//
//   energy_apps APP SECONDS [FRAMES]  runs an application for so long, or so many frames of it
//   energy_apps alone APP SECONDS     each of its commands by itself, again and again, for so long each
//   energy_apps rounds APP            finds the rounds that make its kernels as long as wanted, and prints them
//   energy_apps rest APP SECONDS      sets everything up and does nothing for so long
//
// APP: pipeline (an upload, five kernels of 13 to 117 us, a blocking read a frame), solver (a kernel that takes turns between
// two buffers, and a small one), bodies (forces between bodies, and a kernel that works in place), sort (one kernel in
// place, with other arguments at each launch), queues (two kernels on two queues), unordered (three kernels on an
// out-of-order queue), short (three kernels of 4 to 10 us), svm (two kernels on shared virtual memory), settle (two kernels
// in place, whose data reach a fixed point after some launches).
// ENERGY_APPS_ROUNDS tells the rounds, comma-separated, so that every run makes the same kernels. ENERGY_APPS_HOST_US makes the
// host work for so many microseconds behind each frame, but for those of `alone`. ENERGY_APPS_AGAIN="NAME TIMES" enqueues each
// launch of a kernel so many times more, in its place: what the run's energy rises by is what a launch takes there. In `alone`, a line
// `phase NAME BEGIN END LAUNCHES` for each command: seconds of CLOCK_REALTIME. The device: the first GPU, else any.
#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                                                                            \
    do {                                                                                                                       \
        cl_int check_error = (call);                                                                                           \
        if (check_error != CL_SUCCESS) {                                                                                       \
            fprintf(stderr, "energy_apps: %s: error %d (line %d)\n", #call, check_error, __LINE__);                            \
            exit(1);                                                                                                           \
        }                                                                                                                      \
    } while (0)

enum kind { FP32, FP64, MEMORY, ACCUMULATE, SPARSE, BODIES, PASS };
static const char *const kinds[] = {"FP32", "FP64", "MEMORY", "ACCUMULATE", "SPARSE", "BODIES", "PASS"};
static const char *const bodies =
    "#define FP32(NAME) kernel void NAME(global float *a, global float *b, int n) { size_t i = get_global_id(0);\\\n"
    "  float x = a[i & MASK], y = x + 1.0f, z = x + 2.0f, w = x + 3.0f;\\\n"
    "  for (int k = 0; k < n; k++) { x = fma(x, 0.999f, 0.5f); y = fma(y, 0.998f, 0.4f);\\\n"
    "    z = fma(z, 0.997f, 0.3f); w = fma(w, 0.996f, 0.2f); }\\\n"
    "  b[i & MASK] = x + y + z + w; }\n"
    "#define SPARSE(NAME) FP32(NAME)\n"
    "#ifdef cl_khr_fp64\n#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n#define REAL double\n#else\n#define REAL float\n#endif\n"
    "#define FP64(NAME) kernel void NAME(global float *a, global float *b, int n) { size_t i = get_global_id(0);\\\n"
    "  REAL x = a[i & MASK], y = x + 1.0, z = x + 2.0, w = x + 3.0;\\\n"
    "  for (int k = 0; k < n; k++) { x = fma(x, (REAL)0.999, (REAL)0.5); y = fma(y, (REAL)0.998, (REAL)0.4);\\\n"
    "    z = fma(z, (REAL)0.997, (REAL)0.3); w = fma(w, (REAL)0.996, (REAL)0.2); }\\\n"
    "  b[i & MASK] = (float)(x + y + z + w); }\n"
    "#define MEMORY(NAME) kernel void NAME(global float *a, global float *b, int n) { size_t i = get_global_id(0);\\\n"
    "  size_t step = get_global_size(0);\\\n"
    "  for (int k = 0; k < n; k++) { size_t at = (i + (size_t)k * step) & MASK; b[at] = a[at] * 0.75f + 0.1f; } }\n"
    "#define ACCUMULATE(NAME) kernel void NAME(global float *a, global float *b, int n) { size_t i = get_global_id(0);\\\n"
    "  size_t step = get_global_size(0);\\\n"
    "  for (int k = 0; k < n; k++) { size_t at = (i + (size_t)k * step) & MASK; b[at] = b[at] * 0.999f + a[at]; } }\n"
    "#define BODIES(NAME) kernel void NAME(global float *a, global float *b, int n) { size_t i = get_global_id(0);\\\n"
    "  global float4 *all = (global float4 *)a; float4 me = all[i]; float3 pull = (float3)(0.0f);\\\n"
    "  for (int k = 0; k < n; k++) { float4 other = all[k]; float3 d = other.xyz - me.xyz; float r = rsqrt(dot(d, d) + 0.01f);\\\n"
    "    pull += d * (other.w * r * r * r); }\\\n"
    "  me.xyz += 1e-7f * pull; ((global float4 *)b)[i] = me; }\n"
    "#define PASS(NAME) kernel void NAME(global float *a, global float *b, int n) { size_t i = get_global_id(0);\\\n"
    "  int stage = n >> 8, pass = n & 255; size_t d = (size_t)1 << (stage - pass), left = i / d * 2 * d + i % d, right = left + d;\\\n"
    "  float x = b[left], y = b[right];\\\n"
    "  if ((x > y) == (((i >> stage) & 1) == 0)) { b[left] = y; b[right] = x; } }\n";

struct step {
    const char *name;
    enum kind kind;
    double target_us;
    int from, to;
    cl_kernel kernel;
    size_t global, local;
    int rounds;
};

static struct step pipeline[] = {
    {.name = "p_gain", .kind = MEMORY, .target_us = 13, .from = 0, .to = 1},
    {.name = "p_poly", .kind = FP32, .target_us = 117, .from = 1, .to = 2},
    {.name = "p_warp", .kind = FP64, .target_us = 60, .from = 2, .to = 3},
    {.name = "p_blur", .kind = MEMORY, .target_us = 40, .from = 3, .to = 1},
    {.name = "p_mean", .kind = ACCUMULATE, .target_us = 25, .from = 1, .to = 2},
};
static struct step solver[] = {
    {.name = "s_sweep", .kind = MEMORY, .target_us = 60, .from = 0, .to = 1},
    {.name = "s_norm", .kind = SPARSE, .target_us = 20, .from = 1, .to = 2},
};
static struct step bodies_app[] = {
    {.name = "n_force", .kind = BODIES, .from = 0, .to = 1},
    {.name = "n_stir", .kind = ACCUMULATE, .target_us = 150, .from = 2, .to = 3},
};
static struct step sort[] = {
    {.name = "b_pass", .kind = PASS, .from = 0, .to = 1},
};
static struct step queues[] = {
    {.name = "q_one", .kind = FP32, .target_us = 90, .from = 0, .to = 1},
    {.name = "q_two", .kind = MEMORY, .target_us = 70, .from = 2, .to = 3},
};
static struct step unordered[] = {
    {.name = "o_left", .kind = FP32, .target_us = 50, .from = 0, .to = 1},
    {.name = "o_right", .kind = MEMORY, .target_us = 80, .from = 0, .to = 2},
    {.name = "o_join", .kind = FP64, .target_us = 40, .from = 1, .to = 3},
};
static struct step brief[] = {
    {.name = "t_calc", .kind = FP32, .target_us = 6, .from = 0, .to = 1},
    {.name = "t_move", .kind = MEMORY, .target_us = 10, .from = 1, .to = 2},
    {.name = "t_few", .kind = SPARSE, .target_us = 4, .from = 2, .to = 3},
};
static struct step svm[] = {
    {.name = "v_calc", .kind = FP32, .target_us = 70, .from = 0, .to = 1},
    {.name = "v_move", .kind = MEMORY, .target_us = 50, .from = 1, .to = 2},
};
static struct step settle[] = {
    {.name = "d_single", .kind = FP32, .target_us = 80, .from = 1, .to = 1},
    {.name = "d_double", .kind = FP64, .target_us = 60, .from = 2, .to = 2},
};
static struct { const char *name; struct step *steps; int count; } apps[] = {
    {"pipeline", pipeline, 5}, {"solver", solver, 2}, {"bodies", bodies_app, 2},
    {"sort", sort, 1}, {"queues", queues, 2}, {"unordered", unordered, 3},
    {"short", brief, 3}, {"svm", svm, 2}, {"settle", settle, 2}};

enum { BUFFERS = 4, UP = 4 << 20, DOWN = 2 << 20 };
static cl_context context;
static cl_command_queue queue, second;
static cl_mem buffers[BUFFERS];
static void *shared[BUFFERS];
static const char *again = "";
static int more;
static float *host;
static size_t bytes = (size_t)64 << 20;
static struct step *steps;
static int count, turn, gpu, most;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void launch(cl_command_queue on, struct step *s, int from, int to, cl_uint waits, const cl_event *list, cl_event *event)
{
    if (shared[0]) {
        CHECK(clSetKernelArgSVMPointer(s->kernel, 0, shared[from]));
        CHECK(clSetKernelArgSVMPointer(s->kernel, 1, shared[to]));
    } else {
        CHECK(clSetKernelArg(s->kernel, 0, sizeof(cl_mem), &buffers[from]));
        CHECK(clSetKernelArg(s->kernel, 1, sizeof(cl_mem), &buffers[to]));
    }
    CHECK(clSetKernelArg(s->kernel, 2, sizeof(int), &s->rounds));
    for (int i = 0; more && i < more && !strcmp(again, s->name); i++)
        CHECK(clEnqueueNDRangeKernel(on, s->kernel, 1, NULL, &s->global, &s->local, waits, list, NULL));
    CHECK(clEnqueueNDRangeKernel(on, s->kernel, 1, NULL, &s->global, &s->local, waits, list, event));
}

static void upload(void) { CHECK(clEnqueueWriteBuffer(queue, buffers[0], CL_FALSE, 0, UP, host, 0, NULL, NULL)); }
static void download(void) { CHECK(clEnqueueReadBuffer(queue, buffers[2], CL_TRUE, 0, DOWN, host + UP / sizeof *host, 0, NULL, NULL)); }

// Sorts a copy of the first numbers; the number of launches.
static unsigned long sorted(void)
{
    unsigned long launches = 0;
    struct step pass = steps[0];
    CHECK(clEnqueueCopyBuffer(queue, buffers[0], buffers[1], 0, 0, pass.global * 2 * sizeof(float), 0, NULL, NULL));
    for (int stage = 0; (size_t)1 << stage <= pass.global; stage++)
        for (int i = 0; i <= stage; i++, launches++) {
            pass.rounds = stage << 8 | i;
            launch(queue, &pass, 0, 1, 0, NULL, NULL);
        }
    return launches;
}

// One frame, time step or round of the application.
static void frame(const char *app)
{
    turn++;
    if (!strcmp(app, "sort")) {
        sorted();
        CHECK(clFinish(queue));
    } else if (!strcmp(app, "bodies")) {
        launch(queue, &steps[0], turn & 1, !(turn & 1), 0, NULL, NULL);
        launch(queue, &steps[1], 2, 3, 0, NULL, NULL);
        if (turn % 5 == 0)
            CHECK(clFinish(queue));
    } else if (!strcmp(app, "pipeline")) {
        upload();
        for (int i = 0; i < count; i++)
            launch(queue, &steps[i], steps[i].from, steps[i].to, 0, NULL, NULL);
        download();
    } else if (!strcmp(app, "solver")) {
        launch(queue, &steps[0], turn & 1, !(turn & 1), 0, NULL, NULL);
        launch(queue, &steps[1], turn & 1, 2, 0, NULL, NULL);
        if (turn % 50 == 0)
            CHECK(clFinish(queue));
    } else if (!strcmp(app, "queues")) {
        launch(queue, &steps[0], steps[0].from, steps[0].to, 0, NULL, NULL);
        launch(second, &steps[1], steps[1].from, steps[1].to, 0, NULL, NULL);
        if (turn % 20 == 0) {
            CHECK(clFinish(queue));
            CHECK(clFinish(second));
        }
    } else if (strcmp(app, "unordered")) {
        for (int i = 0; i < count; i++)
            launch(queue, &steps[i], steps[i].from, steps[i].to, 0, NULL, NULL);
        if (turn % 10 == 0)
            CHECK(clFinish(queue));
    } else {
        cl_event both[2];
        launch(second, &steps[0], 0, 1, 0, NULL, &both[0]);
        launch(second, &steps[1], 0, 2, 0, NULL, &both[1]);
        launch(second, &steps[2], 1, 3, 2, both, NULL);
        CHECK(clReleaseEvent(both[0]));
        CHECK(clReleaseEvent(both[1]));
        if (turn % 10 == 0)
            CHECK(clFinish(second));
    }
}

static void set_up(const char *app, int find)
{
    cl_platform_id platforms[16];
    cl_device_id device = NULL;
    cl_uint found = 0;
    cl_int error;
    CHECK(clGetPlatformIDs(16, platforms, &found));
    for (int pass = 0; pass < 2 && !device; pass++)
        for (cl_uint p = 0; p < found && !device; p++)
            if (clGetDeviceIDs(platforms[p], pass ? CL_DEVICE_TYPE_ALL : CL_DEVICE_TYPE_GPU, 1, &device, NULL) != CL_SUCCESS)
                device = NULL;
    if (!device) {
        fprintf(stderr, "energy_apps: no device\n");
        exit(1);
    }
    cl_device_type type = 0;
    cl_uint units = 1;
    char name[128] = "";
    CHECK(clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL));
    CHECK(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
    gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
    if (!gpu)
        bytes = (size_t)8 << 20;
    context = clCreateContext(NULL, 1, &device, NULL, NULL, &error);
    CHECK(error);
    queue = clCreateCommandQueue(context, device, 0, &error);
    CHECK(error);
    second = clCreateCommandQueue(context, device, strcmp(app, "unordered") ? 0 : CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &error);
    CHECK(error);
    host = malloc(bytes);
    for (size_t i = 0; i < bytes / sizeof *host; i++)
        host[i] = (float)(i * 2654435761u % 1000003) * 1e-6f;
    for (int i = 0; i < BUFFERS; i++) {
        buffers[i] = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &error);
        CHECK(error);
        CHECK(clEnqueueWriteBuffer(queue, buffers[i], CL_TRUE, 0, bytes, host, 0, NULL, NULL));
        if (strcmp(app, "svm"))
            continue;
        shared[i] = clSVMAlloc(context, CL_MEM_READ_WRITE, bytes, 0);
        if (!shared[i]) {
            fprintf(stderr, "energy_apps: the device has no shared virtual memory\n");
            exit(1);
        }
        CHECK(clEnqueueSVMMemcpy(queue, CL_TRUE, shared[i], host, bytes, 0, NULL, NULL));
    }
    static char source[1 << 14];
    strcpy(source, bodies);
    for (int i = 0; i < count; i++)
        snprintf(source + strlen(source), sizeof source - strlen(source), "%s(%s)\n", kinds[steps[i].kind], steps[i].name);
    char options[64];
    snprintf(options, sizeof options, "-DMASK=%zuul", bytes / sizeof(float) - 1);
    const char *text = source;
    cl_program program = clCreateProgramWithSource(context, 1, &text, NULL, &error);
    CHECK(error);
    CHECK(clBuildProgram(program, 1, &device, options, NULL, NULL));
    const char *told = getenv("ENERGY_APPS_ROUNDS");
    for (int i = 0; i < count; i++) {
        struct step *s = &steps[i];
        s->kernel = clCreateKernel(program, s->name, &error);
        CHECK(error);
        s->local = gpu ? (s->kind == SPARSE ? 64 : 256) : 1;
        s->global = s->kind == SPARSE ? s->local * (gpu ? 16 : 1) : gpu ? (size_t)units * 2048 : units;
        if (s->kind == BODIES)
            s->global = s->local * (gpu ? units : 8);
        if (s->kind == PASS)
            s->global = gpu ? (size_t)1 << 21 : (size_t)1 << 10;
        s->rounds = s->kind == BODIES ? (int)s->global : 1;
        if (told && !find) {
            s->rounds = atoi(told);
            told = strchr(told, ',') ? strchr(told, ',') + 1 : NULL;
        }
    }
    printf("device %s\n", name);
}

// Rounds that make a kernel as long as wanted: from the slope between two lengths.
static void find_rounds(struct step *s)
{
    if (s->kind == BODIES || s->kind == PASS)
        return;
    double took[2];
    int tried[2] = {s->kind == MEMORY || s->kind == ACCUMULATE ? 8 : 256, 0};
    for (int pass = 0; pass < 3; pass++) {
        tried[1] = tried[0] * 3;
        for (int i = 0; i < 2; i++) {
            s->rounds = tried[i];
            launch(queue, s, s->from, s->to, 0, NULL, NULL);
            CHECK(clFinish(queue));
            double from = now();
            for (int k = 0; k < 200; k++)
                launch(queue, s, s->from, s->to, 0, NULL, NULL);
            CHECK(clFinish(queue));
            took[i] = (now() - from) / 200 * 1e6;
        }
        double slope = (took[1] - took[0]) / (tried[1] - tried[0]), base = took[0] - slope * tried[0];
        double wanted = slope > 0 ? (s->target_us - (base > 0 ? base : 0)) / slope : tried[0];
        tried[0] = wanted < 1 ? 1 : wanted > 1e7 ? 10000000 : (int)(wanted + 0.5);
    }
    s->rounds = tried[0];
}

// A command again and again, two stretches of some milliseconds in flight.
static void alone(const char *name, struct step *s, int which, double seconds)
{
    cl_event last[2] = {NULL, NULL};
    unsigned long launches = 0;
    CHECK(clFinish(queue));
    double from = now(), each = 0;
    for (int half = 0; now() - from < seconds; half ^= 1) {
        if (last[half]) {
            CHECK(clWaitForEvents(1, &last[half]));
            CHECK(clReleaseEvent(last[half]));
        }
        each = launches ? (now() - from) / launches : 0;
        int stretch = each > 0 ? (int)(5e-3 / each) : 1;
        stretch = stretch < 1 ? 1 : stretch > 2000 ? 2000 : stretch;
        if (s && s->kind == PASS) {
            launches += sorted();
            CHECK(clEnqueueMarkerWithWaitList(queue, 0, NULL, &last[half]));
            CHECK(clFlush(queue));
            continue;
        }
        for (int i = 0; i < stretch; i++, launches++) {
            cl_event *event = i + 1 == stretch ? &last[half] : NULL;
            if (s)
                launch(queue, s, s->from, s->to, 0, NULL, event);
            else if (which)
                CHECK(clEnqueueReadBuffer(queue, buffers[2], CL_FALSE, 0, DOWN, host + UP / sizeof *host, 0, NULL, event));
            else
                CHECK(clEnqueueWriteBuffer(queue, buffers[0], CL_FALSE, 0, UP, host, 0, NULL, event));
        }
        CHECK(clFlush(queue));
    }
    CHECK(clFinish(queue));
    double to = now();
    for (int i = 0; i < 2; i++)
        if (last[i])
            CHECK(clReleaseEvent(last[i]));
    printf("phase %s %.6f %.6f %lu\n", name, from, to, launches);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int by_itself = argc > 1 && !strcmp(argv[1], "alone"), find = argc > 1 && !strcmp(argv[1], "rounds");
    int rests = argc > 1 && !strcmp(argv[1], "rest"), words = by_itself || find || rests;
    const char *app = argc > 1 + words ? argv[1 + words] : "";
    double seconds = argc > 2 + words ? atof(argv[2 + words]) : 5;
    most = argc > 3 && !words ? atoi(argv[3]) : 0;
    for (size_t i = 0; i < sizeof apps / sizeof *apps; i++)
        if (!strcmp(apps[i].name, app))
            steps = apps[i].steps, count = apps[i].count;
    if (!steps) {
        fprintf(stderr, "usage: energy_apps [alone] pipeline|solver|bodies|sort|queues|unordered|short|svm|settle SECONDS [FRAMES], "
                        "energy_apps rounds APP, energy_apps rest APP SECONDS\n");
        return 2;
    }
    set_up(app, find);
    if (find) {
        for (int i = 0; i < count; i++)
            find_rounds(&steps[i]);
        printf("rounds ");
        for (int i = 0; i < count; i++)
            printf("%d%s", steps[i].rounds, i + 1 < count ? "," : "\n");
        return 0;
    }
    double from = now();
    if (by_itself) {
        // The data as the application leaves them, and a warm device.
        while (now() - from < 2)
            frame(app);
        CHECK(clFinish(queue));
        CHECK(clFinish(second));
        if (!strcmp(app, "pipeline")) {
            alone("host_to_device", NULL, 0, seconds);
            alone("device_to_host", NULL, 1, seconds);
        }
        for (int i = 0; i < count; i++)
            alone(steps[i].name, &steps[i], 0, seconds);
        return 0;
    }
    if (rests) {
        CHECK(clFinish(queue));
        printf("rests %.6f\n", now());
        fflush(stdout);
        nanosleep(&(struct timespec){.tv_sec = (time_t)seconds}, NULL);
        return 0;
    }
    char *wanted = getenv("ENERGY_APPS_AGAIN"), *times = wanted ? strchr(wanted, ' ') : NULL;
    if (times) {
        more = atoi(times);
        *times = 0;
        again = wanted;
    }
    double zero = from = now();
    const char *told = getenv("ENERGY_APPS_HOST_US");
    double work = told ? atof(told) * 1e-6 : 0;
    while (most ? turn < most : now() - from < seconds) {
        frame(app);
        for (double begun = now(); now() - begun < work;)
            ;
    }
    CHECK(clFinish(queue));
    CHECK(clFinish(second));
    printf("ran %s %d frames in %.3f s\n", app, turn, now() - zero);
    return 0;
}

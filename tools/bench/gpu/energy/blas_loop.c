/* blas_loop SECONDS [ROUNDS]: gemm, gemv, axpy and dot of CLBlast on the first GPU (else the first device) for so long, or so
   many times, with a wait after each round, as a solver has. An ordinary application: it knows nothing of profilers.
   gcc -O2 -o blas_loop blas_loop.c -lclblast -lOpenCL */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* CLBlast's C interface, as far as it is used here: its package for developers need not be there. */
int CLBlastSgemm(int layout, int a_transpose, int b_transpose, size_t m, size_t n, size_t k, float alpha, cl_mem a, size_t a_offset, size_t a_ld,
                 cl_mem b, size_t b_offset, size_t b_ld, float beta, cl_mem c, size_t c_offset, size_t c_ld, cl_command_queue *, cl_event *);
int CLBlastSgemv(int layout, int transpose, size_t m, size_t n, float alpha, cl_mem a, size_t a_offset, size_t a_ld, cl_mem x, size_t x_offset,
                 size_t x_inc, float beta, cl_mem y, size_t y_offset, size_t y_inc, cl_command_queue *, cl_event *);
int CLBlastSaxpy(size_t n, float alpha, cl_mem x, size_t x_offset, size_t x_inc, cl_mem y, size_t y_offset, size_t y_inc, cl_command_queue *, cl_event *);
int CLBlastSdot(size_t n, cl_mem dot, size_t dot_offset, cl_mem x, size_t x_offset, size_t x_inc, cl_mem y, size_t y_offset, size_t y_inc,
                cl_command_queue *, cl_event *);
enum { ROWS = 101, PLAIN = 111 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 5;
    long most = argc > 2 ? atol(argv[2]) : 0;
    cl_platform_id platforms[8];
    cl_device_id device = NULL;
    cl_uint count = 0;
    clGetPlatformIDs(8, platforms, &count);
    for (cl_uint i = 0; i < count && i < 8 && !device; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_GPU, 1, &device, NULL)) device = NULL;
    size_t n = device ? 2048 : 256;
    if (!device && (!count || clGetDeviceIDs(platforms[0], CL_DEVICE_TYPE_ALL, 1, &device, NULL))) return fprintf(stderr, "no device\n"), 1;
    cl_int code;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    float *host = malloc(4 * n * n);
    for (size_t i = 0; i < n * n; i++) host[i] = rand() / (float)RAND_MAX - 0.5f;
    cl_mem m[3];
    for (int i = 0; i < 3; i++) m[i] = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 4 * n * n, host, &code);
    cl_mem dot = clCreateBuffer(context, CL_MEM_READ_WRITE, 4, NULL, &code);
    double begun = now();
    long rounds = 0;
    float got = 0;
    while (most ? rounds < most : now() - begun < seconds) {
        int bad = CLBlastSgemm(ROWS, PLAIN, PLAIN, n, n, n, 1e-3f, m[0], 0, n, m[1], 0, n, 0, m[2], 0, n, &queue, NULL);
        for (int i = 0; i < 4; i++) bad |= CLBlastSgemv(ROWS, PLAIN, n, n, 1e-3f, m[2], 0, n, m[0], 0, 1, 0, m[1], 0, 1, &queue, NULL);
        for (int i = 0; i < 4; i++) bad |= CLBlastSaxpy(n * n, 1e-6f, m[0], 0, 1, m[1], 0, 1, &queue, NULL);
        bad |= CLBlastSdot(n * n, dot, 0, m[0], 0, 1, m[2], 0, 1, &queue, NULL);
        if (bad) return fprintf(stderr, "CLBlast: %d\n", bad), 1;
        clEnqueueReadBuffer(queue, dot, CL_TRUE, 0, 4, &got, 0, NULL, NULL);
        rounds++;
    }
    printf("%ld frames, dot %g\n", rounds, got);
    return 0;
}

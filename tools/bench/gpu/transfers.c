// transfers [ROUNDS=6] [MOST=268435456]: blocking writes and reads of many odd sizes, 61 bytes to MOST, in both directions, from
// pageable memory and from memory that the runtime pinned (a mapped buffer of its own allocation), to judge what the model of
// transfers predicts of sizes that it was not fitted to. Each size is transferred ROUNDS times in a row; the order of sizes is
// shuffled by a fixed rule. Memory is touched before. Prints the device and the number of transfers; exit code 1 where data
// did not come back. Device: the first GPU, else any.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what, code) \
    do { \
        cl_int code_ = (code); \
        if (code_) { fprintf(stderr, "%s: error %d\n", what, code_); exit(1); } \
    } while (0)

enum { MOST_SIZES = 256 };

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 6;
    const size_t most = argc > 2 ? (size_t)atoll(argv[2]) : (size_t)1 << 28;
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
    char text[256];
    CHECK("clGetDeviceInfo", clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof text, text, NULL));
    cl_int code;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    CHECK("clCreateContext", code);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &code);
    CHECK("clCreateCommandQueue", code);
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, most, NULL, &code);
    CHECK("clCreateBuffer", code);
    cl_mem staging = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, most, NULL, &code);
    CHECK("clCreateBuffer", code);
    unsigned char *memory[2] = {malloc(most), NULL};
    memory[1] = clEnqueueMapBuffer(queue, staging, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, most, 0, NULL, NULL, &code);
    CHECK("clEnqueueMapBuffer", code);
    for (int kind = 0; kind < 2; kind++) {
        for (size_t i = 0; i < most; i++) {
            memory[kind][i] = (unsigned char)(i * 31 ^ i >> 12 ^ (size_t)kind);
        }
    }
    // Odd sizes, none a power of two: some 1.43 times apart.
    size_t sizes[MOST_SIZES];
    int count = 0;
    for (double size = 61; size <= (double)most && count < MOST_SIZES; size *= 1.43) {
        sizes[count++] = (size_t)size | 1;
    }
    unsigned long transfers = 0;
    int wrong = 0;
    for (int n = 0; n < count; n++) {
        // A stride that has no factor with the number of sizes visits each once.
        int stride = 17;
        while (count % stride == 0) {
            stride += 2;
        }
        const size_t size = sizes[n * stride % count];
        for (int kind = 0; kind < 2; kind++) {
            unsigned char *at = memory[kind];
            for (int direction = 0; direction < 2; direction++) {
                const unsigned char first = at[0], last = at[size - 1];
                for (int i = 0; i < rounds; i++, transfers++) {
                    CHECK("transfer", direction ? clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, size, at, 0, NULL, NULL)
                                                : clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, size, at, 0, NULL, NULL));
                }
                wrong += at[0] != first || at[size - 1] != last;
            }
        }
    }
    CHECK("clEnqueueUnmapMemObject", clEnqueueUnmapMemObject(queue, staging, memory[1], 0, NULL, NULL));
    CHECK("clFinish", clFinish(queue));
    printf("%s: %lu transfers of %d sizes, %d wrong\n", text, transfers, count, wrong);
    free(memory[0]);
    clReleaseMemObject(staging);
    clReleaseMemObject(buffer);
    clReleaseCommandQueue(queue);
    clReleaseContext(context);
    return wrong != 0;
}

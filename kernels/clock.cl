// A clock that is read inside kernels: when each group ran, and how long single accesses took.
//   -DCLOCK_PTX  NVIDIA's special registers: nanoseconds of the device, cycles of a multiprocessor (PTX ISA, "Special Registers")
//   -DCLOCK_KHR  cl_khr_kernel_clock (OpenCL extension specification): the device's, with -cl-std=CL3.0
//   -DCLOCK_X86  the time-stamp counter of x86; a load fence waits for what was loaded before (Intel SDM, volume 2, RDTSC)
// TICKS() is the same clock in all groups. CYCLES() is that of the unit a work-item runs on, read when what stands before is done.
#ifdef CLOCK_PTX
ulong ticks(void) { ulong t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t) : : "memory"); return t; }
ulong cycles(void) { ulong t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) : : "memory"); return t; }
#define TICKS() ticks()
#define CYCLES() cycles()
#elif defined(CLOCK_KHR)
#define TICKS() clock_read_device()
#elif defined(CLOCK_X86)
ulong cycles(void)
{
    __asm__ volatile("lfence" : : : "memory");
    const ulong t = __builtin_readcyclecounter();
    __asm__ volatile("lfence" : : : "memory");
    return t;
}
#define TICKS() __builtin_readcyclecounter()
#define CYCLES() cycles()
#endif

// What the clock says now.
kernel void now(global ulong *out)
{
    out[0] = TICKS();
}

// Each warp of `lanes` work-items writes when it began and when it ended; between them `trips` x 16 dependent reciprocal square
// roots, which leave out[i] at 1, as many groups at once as local memory leaves room for. With -DWHOLE a group is one warp: its end
// is that of its slowest work-item.
kernel SIZED void groups(global ulong *times, global float *out, uint trips, uint lanes, local uint *pad)
{
    const uint l = (uint)get_local_id(0), warps = ((uint)get_local_size(0) + lanes - 1) / lanes;
    const uint w = (uint)get_group_id(0) * warps + l / lanes;
    if (l % lanes == 0) {
        times[2 * w] = TICKS();
    }
#ifdef WHOLE
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    float x = (float)(get_global_id(0) % 4u + 1u);
    for (uint j = 0; j < trips; j++) {
        TIMES16(x = rsqrt(x);)
    }
    out[get_global_id(0)] = x;
#ifdef WHOLE
    barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);
#endif
    // Never false, and the roots must have ended to know.
    if (l % lanes == 0 && x > 0.0f) {
        times[2 * w + 1] = TICKS();
    }
}

#ifdef CYCLES
// Chains of accesses as in latency.cl, from word `start` on; the first `lanes` work-items of the first group time one access in
// eight. `empty` holds the same interval without an access: what reading the clock costs. Words of `pad` keep the order: a value
// that is stored has arrived.
kernel SIZED void accesses(global uint *out, global const uint *table, uint trips, uint mask, uint start, uint lanes,
    global uint *taken, global uint *empty, local volatile uint *pad)
{
    const uint i = (uint)get_global_id(0), l = (uint)get_local_id(0);
    const bool timed = get_group_id(0) == 0 && l < lanes;
    uint at = (i + start) & mask;
    for (uint j = 0; j < trips; j++) {
        at = table[at]; at = table[at]; at = table[at]; at = table[at];
        at = table[at]; at = table[at]; at = table[at];
        if (timed) {
            pad[l] = at;
            const ulong a = CYCLES();
            pad[l] = at;
            const ulong b = CYCLES();
            at = table[at];
            pad[l] = at;
            const ulong c = CYCLES();
            if (l == 0) {
                empty[j] = (uint)(b - a);
                taken[j] = (uint)(c - b);
            }
        } else {
            at = table[at];
        }
    }
    out[i] = at;
}
#endif

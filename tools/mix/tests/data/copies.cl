// What an item moves stands above each kernel.
typedef struct { float a[8]; } Particle;

// Global memory: 32 bytes read, 32 written.
__kernel void copy(__global const Particle *from, __global Particle *to) {
    to[get_global_id(0)] = from[get_global_id(0)];
}

// Global memory: 4 bytes read, 4 + 4 written.
__kernel void parts(__global const float *from, __global float *to, __global float *whole) {
    size_t at = get_global_id(0);
    to[at] = fract(from[at], whole + at);
}

// What a group copies at once is in no figure; 4 bytes of local memory read, 4 of global written.
__kernel void at_once(__global const float *from, __global float *to, __local float *kept) {
    event_t done = async_work_group_copy(kept, from + get_group_id(0) * 64, 64, 0);
    wait_group_events(1, &done);
    to[get_global_id(0)] = kept[get_local_id(0)];
}

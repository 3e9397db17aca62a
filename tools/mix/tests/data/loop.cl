// Source of loop.spv: a loop whose length depends on the work-item, a branch in it, a function call.
__attribute__((noinline)) uint step(uint x) { return x & 1 ? 3 * x + 1 : x / 2; }
kernel void collatz(global uint *out, uint most) {
    uint x = (uint)get_global_id(0) + 1, n = 0;
    while (x != 1 && n < most) { x = step(x); n++; }
    out[get_global_id(0)] = n;
}
kernel void axpy(global const float4 *x, global float4 *y, float a) {
    size_t i = get_global_id(0);
    y[i] = fma((float4)(a), x[i], y[i]);
}
kernel void reduce(global const int *in, global int *out, local int *scratch) {
    uint l = get_local_id(0);
    scratch[l] = in[get_global_id(0)];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint s = get_local_size(0) / 2; s > 0; s /= 2) {
        if (l < s) scratch[l] += scratch[l + s];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0) atomic_add(out, scratch[0]);
}

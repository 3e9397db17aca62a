// What kernels execute, and where they access memory, by what it holds or not. What each one does is in the test.
#define I int i = get_global_id(0);
constant int table[4] = { 1, 2, 3, 4 };
int twice(int n) { return 2 * n; }
int next(global const int *in, int i) { return in[i] + 1; }
void put(local int *to, int value) { to[get_local_id(0)] = value; }
kernel void fixed_loop(global const float *in, global float *out, int n) { I float s = 0; for (int k = 0; k < n; k++) s += in[i * n + k]; out[i] = s; }
kernel void fixed_table(global int *out) { I int s = 0; for (int k = 0; k < table[i & 3]; k++) s += out[k]; out[i] = s; }
kernel void fixed_chosen(global const float *in, global float *out) { I float x = in[i]; out[i] = x > 0 ? x : -x; }
kernel void fixed_call(global int *out, int n) { I for (int k = 0; k < twice(n); k++) out[k] += i; }
kernel void fixed_local(global int *out, local int *own, int n) { I put(own, n); barrier(CLK_LOCAL_MEM_FENCE); for (int k = 0; k < own[0]; k++) out[k] += i; }
kernel void fixed_private(global int *out, int n) { I int own[8]; for (int k = 0; k < 8; k++) own[k] = n + k; for (int k = 0; k < own[i & 7]; k++) out[k] += i; }
kernel void fixed_vectors(global const float4 *in, global float *out, int n) { I float4 s = 0; for (int k = 0; k < n; k++) s += vload4(k, (global const float *)in) * in[i]; out[i] = s.x + s.w; }
kernel void fixed_lookup(global const int *in, global const float *of, global float *out) { I out[i] = of[in[i]]; }
kernel void fixed_image(read_only image2d_t in, sampler_t how, global float *out, int n) { I for (int k = 0; k < n; k++) out[i] += read_imagef(in, how, (int2)(i, k)).x; }
kernel void fixed_group(global const int *in, global int *out, local int *own, int n) { I event_t done = async_work_group_copy(own, in, n, 0); wait_group_events(1, &done); out[i] = own[i % n]; }
kernel void loaded_count(global const int *in, global int *out) { I for (int k = 0; k < in[i]; k++) out[k] += i; }
kernel void loaded_branch(global const float *in, global float *out) { I if (in[i] > 0.5f) for (int k = 0; k < 99; k++) out[k] = sin(out[k]); }
kernel void loaded_call(global const int *in, global int *out) { I for (int k = 0; k < next(in, i); k++) out[k] += i; }
kernel void loaded_local(global const int *in, global int *out, local int *own) { I put(own, in[i]); barrier(CLK_LOCAL_MEM_FENCE); for (int k = 0; k < own[0]; k++) out[k] += i; }
kernel void loaded_private(global const int *in, global int *out) { I int own[8]; for (int k = 0; k < 8; k++) own[k] = in[k]; for (int k = 0; k < own[i & 7]; k++) out[k] += i; }
kernel void loaded_constant(constant int *in, global int *out) { I for (int k = 0; k < in[0]; k++) out[k] += i; }
kernel void loaded_atomic(global int *out, volatile local int *next, int n) { I int of = atomic_inc(next); for (int k = 0; k < of % n; k++) out[k] += i; }
kernel void loaded_group(global const int *in, global int *out, local int *own, int n) { I event_t done = async_work_group_copy(own, in, n, 0); wait_group_events(1, &done); for (int k = 0; k < own[0]; k++) out[k] += i; }
kernel void loaded_image(read_only image2d_t in, sampler_t how, global float *out) { I for (float k = 0; k < read_imagef(in, how, (int2)(i, 0)).x; k++) out[(int)k] += i; }
kernel void loaded_part(global const float4 *in, global float *out) { I float whole, part = fract(in[i].y, &whole); for (float k = 0; k < whole; k++) out[i] += part; }
kernel void loaded_pointer(global int *out, int n) { I int a = n, b = out[i]; int *of = i & 1 ? &a : &b; for (int k = 0; k < *of; k++) out[k] += i; }
kernel void loaded_switch(global const int *in, global int *out) { I switch (in[i]) { case 1: out[i] = 7; break; case 9: out[i] += out[1]; break; default: for (int k = 0; k < 9; k++) out[k] += i; } }

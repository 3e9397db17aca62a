// Addresses that follow from what was loaded, and such that do not; conversions that saturate. What each kernel has is in the test.
#define I int i = get_global_id(0);
kernel void in_order(global const float *in, global float *out, int n) { I float s = 0; for (int k = 0; k < n; k++) s += in[i * n + k]; out[i] = s; }
kernel void lookup(global const uchar *in, global const float *table, global float *out) { I out[i] = table[in[i]]; }
kernel void sparse(global const int *row, global const int *col, global const float *value, global const float *x, global float *y)
{
    I float s = 0;
    for (int k = row[i]; k < row[i + 1]; k++) s += value[k] * x[col[k]];
    y[i] = s;
}
kernel void search(global const uint *wanted, global const uint *sorted, global uint *out, uint n)
{
    I uint low = 0, high = n;
    while (low < high) { uint at = (low + high) / 2; if (sorted[at] < wanted[i]) low = at + 1; else high = at; }
    out[i] = low;
}
kernel void follow(global const uint *next, global uint *out, uint n) { I uint at = i; for (uint k = 0; k < n; k++) at = next[at]; out[i] = at; }
kernel void pairs(global const int *index, global const int2 *of, global int *out) { I int2 both = of[index[i]]; out[i] = both.x + both.y; }
kernel void one_for_all(global const int *from, global const float *in, global float *out) { I out[i] = in[from[0] + i]; }
kernel void saturate(global const float4 *in, global uchar4 *out) { I out[i] = convert_uchar4_sat(in[i]); }

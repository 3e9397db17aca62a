// Blends of instructions, for joules by class: in every turn of the loop so many steps of each kind, as launches of applications
// have them. -DFP32=n -DFP64=n (NEEDS_DOUBLE) -DFP16=n (NEEDS_HALF) -DINTEGERS=n -DLOGIC=n -DROTATES=n -DSPECIALS=n -DDIVISIONS=n
// -DINT_DIVISIONS=n -DDOUBLE_DIVISIONS=n -DLOCALS=n -DLOADS=n -DWIDE_LOADS=n -DSTORES=n -DATOMICS=n -DLOCAL_ATOMICS=n
// Arguments: out (four words an item), data (a power of two of words, word w is w * 2654435761), put (as many, for stores and
// atomics), trips, mask (words less one), hop (words between two accesses of an item), r (1.9: numbers that never settle), a (1664525),
// lanes (of every 32 neighbours in a group, how many work at all).
// A correct run leaves in out[i]: x the integers and what was loaded, y the bits of the floats, z those of the doubles' high words,
// as the host computes them; w is of divisions, special functions and FP16, which devices round as they like.

#define STEPS(n, s) for (int k = 0; k < n; k++) { s }

kernel SIZED void blend(global uint4 *out, global const uint *data, global uint *put, uint trips, uint mask, uint hop, float r, uint a, uint lanes)
{
    const uint i = (uint)get_global_id(0);
    const uint l = (uint)get_local_id(0);
    local uint scratch[1024];
    for (uint k = l; k < 1024; k += (uint)get_local_size(0)) {
        scratch[k] = k * 2654435761u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l % 32 >= lanes) {
        return;
    }
    uint4 u = (uint4)(i, i + 1, i + 2, i + 3) * 2654435761u;
    uint sum = 0, at = i, place = l;
    float4 f = convert_float4(u >> 8) * 0x1p-24f * r;
#ifdef FP64
    double2 d = convert_double2(u.xy >> 8) * 0x1p-24 * (double)r;
#endif
#ifdef FP16
    half2 h = convert_half2(f.xy), hr = (half2)((half)r);
#endif
    float4 s = f + 0.5f, q = f + 1.5f;
#ifdef DOUBLE_DIVISIONS
    double2 p = convert_double2(q.xy);
#endif
    for (uint j = 0; j < trips; j++) {
#ifdef FP32
        STEPS(FP32, f = fma(f * -r, f, (float4)(1.0f));)
#endif
#ifdef FP64
        STEPS(FP64, d = fma(d * -(double)r, d, (double2)(1.0));)
#endif
#ifdef FP16
        STEPS(FP16, h = fma(h * -hr, h, (half2)((half)1.0f));)
#endif
#ifdef INTEGERS
        STEPS(INTEGERS, u = u * a + 1013904223u;)
#endif
#ifdef LOGIC
        STEPS(LOGIC, u ^= u << 13; u ^= u >> 17;)
#endif
#ifdef ROTATES
        STEPS(ROTATES, u = rotate(u, (uint4)(7u)) + u.yzwx;)
#endif
#ifdef SPECIALS
        STEPS(SPECIALS, s = native_sin(7.0f * s);)
#endif
#ifdef DIVISIONS
        STEPS(DIVISIONS, q = 0.5f * (q - 1.0f / q);)
#endif
#ifdef DOUBLE_DIVISIONS
        STEPS(DOUBLE_DIVISIONS, p = 0.5 * (p - 1.0 / p);)
#endif
#ifdef INT_DIVISIONS
        STEPS(INT_DIVISIONS, u ^= (u ^ 0x9E3779B9u) / ((u >> 16) | 1u);)
#endif
#ifdef LOCALS
        STEPS(LOCALS, sum ^= scratch[place]; place = (place + 32u) & 1023u;)
#endif
#ifdef LOADS
        STEPS(LOADS, sum ^= data[at & mask]; at += hop;)
#endif
#ifdef WIDE_LOADS
        STEPS(WIDE_LOADS, const uint4 v = vload4(at & (mask >> 2), data); sum ^= v.x ^ v.y ^ v.z ^ v.w; at += hop;)
#endif
#ifdef STORES
        STEPS(STORES, put[at & mask] = sum + u.x + j; at += hop;)
#endif
#ifdef ATOMICS
        STEPS(ATOMICS, atomic_add(&put[at & mask], 1u); at += hop;)
#endif
#ifdef LOCAL_ATOMICS
        STEPS(LOCAL_ATOMICS, atomic_add(&scratch[place], 0u); place = (place + 32u) & 1023u;)
#endif
    }
    uint4 left = (uint4)(u.x ^ u.y ^ u.z ^ u.w ^ sum, as_uint(f.x) ^ as_uint(f.y) ^ as_uint(f.z) ^ as_uint(f.w), 0, as_uint(s.x + s.y + s.z + s.w + q.x + q.y + q.z + q.w));
#ifdef FP64
    left.z = (uint)(as_ulong(d.x) >> 32) ^ (uint)(as_ulong(d.y) >> 32);
#endif
#ifdef FP16
    left.w ^= as_uint(h);
#endif
#ifdef DOUBLE_DIVISIONS
    left.w ^= (uint)as_ulong(p.x + p.y);
#endif
    out[i] = left;
}

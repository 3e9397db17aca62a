// Instruction classes for energy: 500 statements of one class in a loop.
//   -DCLASS_ARITHMETIC|DIVISION|SPECIAL|OTHER (compare and branch)|GLOBAL|LOCAL, on SCALAR (-DINTEGER for int)
// Arguments: a (seeds in, results out), table (pointer chain for GLOBAL), trips, p, q, lanes: of every 32 neighbours in a group, how
// many work at all, scratch: local memory.
// A correct run leaves in every a[i] of a working item what the same statements give on the host, and the rest as they were.
// The chains keep every access dependent on the one before; energy, unlike throughput, does not mind.

#ifdef INTEGER
#define ARITHMETIC x = x + y; y = y ^ x;
#define SPECIAL x = popcount(x) + p; x = popcount(x) + q;
#else
#define ARITHMETIC x = x * p; x = x + q;
#define SPECIAL x = rsqrt(x); x = rsqrt(x);
#endif
#define DIVISION x = p / x; x = q / x;
#define OTHER x = (x > p) ? x - q : x + p; x = (x < q) ? x + p : x - q;

#ifdef SCALAR
kernel SIZED void classes(global SCALAR *a, global const uint *table, uint trips, SCALAR p, SCALAR q, uint lanes, local uint *scratch)
{
    const size_t i = get_global_id(0);
    const uint l = (uint)get_local_id(0);
#if defined(CLASS_LOCAL)
    for (uint k = l; k < 1024; k += (uint)get_local_size(0)) {
        scratch[k] = (k + 32) & 1023;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
    if (l % 32 >= lanes) {
        return;
    }
#if defined(CLASS_GLOBAL)
    uint at = (uint)i & (TABLE_WORDS - 1);
    for (uint j = 0; j < trips; j++) {
        TIMES250(at = table[at]; at = table[at];)
    }
    a[i] = (SCALAR)at;
#elif defined(CLASS_LOCAL)
    uint at = l & 1023;
    for (uint j = 0; j < trips; j++) {
        TIMES250(at = scratch[at]; at = scratch[at];)
    }
    a[i] = (SCALAR)at;
#else
    SCALAR x = a[i];
    SCALAR y = q;
    for (uint j = 0; j < trips; j++) {
#if defined(CLASS_ARITHMETIC)
        TIMES250(ARITHMETIC)
#elif defined(CLASS_DIVISION)
        TIMES250(DIVISION)
#elif defined(CLASS_SPECIAL)
        TIMES250(SPECIAL)
#elif defined(CLASS_OTHER)
        TIMES250(OTHER)
#endif
    }
    a[i] = x;
#endif
}
#endif

// A mixture: -DPAIR_1=FLOAT_ARITHMETIC ... -DPAIR_5=MEMORY_LOCAL, each two statements of a class on a chain of its own, fifty times
// a turn: 500 statements. k is 5, 3 and two divisors; f is 1, 1/4, 3/2 and 3/2 + 1/1024.
// A correct run leaves in out[14 i ...] of a working item the ends of the chains, in the order below; of doubles as floats.
#ifdef PAIR_1
#define INT_ARITHMETIC ia = ia + iy; iy = iy ^ ia;
#define INT_DIVISION id = k.z / id; id = k.w / id;
#define INT_SPECIAL is = popcount(is) + k.x; is = popcount(is) + k.y;
#define INT_OTHER io = (io > k.x) ? io - k.y : io + k.x; io = (io < k.y) ? io + k.x : io - k.y;
#define FLOAT_ARITHMETIC fa = fa * f.x; fa = fa + f.y;
#define FLOAT_DIVISION fd = f.z / fd; fd = f.w / fd;
#define FLOAT_SPECIAL fs = rsqrt(fs); fs = rsqrt(fs);
#define FLOAT_OTHER fo = (fo > f.z) ? fo - fq : fo + f.z; fo = (fo < fq) ? fo + f.z : fo - fq;
#define DOUBLE_ARITHMETIC da = da * d.x; da = da + d.y;
#define DOUBLE_DIVISION dd = d.z / dd; dd = d.w / dd;
#define DOUBLE_SPECIAL ds = rsqrt(ds); ds = rsqrt(ds);
#define DOUBLE_OTHER du = (du > d.z) ? du - dq : du + d.z; du = (du < dq) ? du + d.z : du - dq;
#define MEMORY_GLOBAL at = table[at]; at = table[at];
#define MEMORY_LOCAL l = scratch[l]; l = scratch[l];

kernel SIZED void mixture(global int *out, global const uint *table, uint trips, int4 k, float4 f, uint lanes, local uint *scratch)
{
    const size_t i = get_global_id(0);
    uint l = (uint)get_local_id(0);
    for (uint w = l; w < 1024; w += (uint)get_local_size(0)) {
        scratch[w] = (w + 32) & 1023;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l % 32 >= lanes) {
        return;
    }
    l &= 1023;
    uint at = (uint)i & (TABLE_WORDS - 1);
    int ia = 2 + (int)(i % 4), iy = k.y, id = ia, is = ia, io = ia;
    float fa = f.x + f.y * (float)(i % 4), fd = fa, fs = fa, fo = fa;
    const float fq = f.x - f.y;
#ifdef NEEDS_DOUBLE
    const double4 d = convert_double4(f);
    const double dq = d.x - d.y;
    double da = fa, dd = fa, ds = fa, du = fa;
#endif
    for (uint j = 0; j < trips; j++) {
        // Not all written out: a compiler takes a second for that, and a search runs many mixtures.
#pragma unroll 1
        for (uint m = 0; m < 5; m++) {
            TIMES10(PAIR_1 PAIR_2 PAIR_3 PAIR_4 PAIR_5)
        }
    }
    global int *ends = out + 14 * i;
    ends[0] = ia; ends[1] = id; ends[2] = is; ends[3] = io;
    ends[4] = as_int(fa); ends[5] = as_int(fd); ends[6] = as_int(fs); ends[7] = as_int(fo);
#ifdef NEEDS_DOUBLE
    ends[8] = as_int((float)da); ends[9] = as_int((float)dd); ends[10] = as_int((float)ds); ends[11] = as_int((float)du);
#endif
    ends[12] = (int)at; ends[13] = (int)l;
}
#endif

// Links of TABLE_WORDS words: word w leads to the word HOP further on, so that neighbours stay neighbours.
kernel SIZED void link(global uint *table, uint hop)
{
    const uint i = (uint)get_global_id(0);
    table[i] = (i + hop) & (TABLE_WORDS - 1);
}

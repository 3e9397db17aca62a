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

// Links of TABLE_WORDS words: word w leads to the word HOP further on, so that neighbours stay neighbours.
kernel SIZED void link(global uint *table, uint hop)
{
    const uint i = (uint)get_global_id(0);
    table[i] = (i + hop) & (TABLE_WORDS - 1);
}

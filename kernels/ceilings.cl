// Ceilings of single kinds of instruction, four chains side by side: -DKIND=MUL|DIV|LONG_ADD|LONG_MUL|LONG_DIV|CONVERT|ROOT|CONSTANT|
// PRIVATE|BARRIER|ATOMIC|RESULT|LOCAL_ATOMIC|ADD|LOGIC|SINGLE|DOUBLE|GATHER|SCATTER|APART|BITS|STORE|WAIT|SATURATED|HALF, as numbers that the host names (see below).
// Arguments: out (a word an item), table (1024 words in constant memory, word w is w * 2654435761), put (words for atomics, 0 at first),
// trips, a and b (what the kind steps by; see its statement).
// -DIMAGE has a kernel of its own, `images`. A correct run leaves in out[i] what the same statements give on the host, and adds to put one for each atomic.
#define MUL 1
#define DIV 2
#define LONG_ADD 3
#define LONG_MUL 4
#define LONG_DIV 5
#define CONVERT 6
#define ROOT 7
#define CONSTANT 8
#define PRIVATE 9
#define BARRIER 10
#define ATOMIC 11
#define RESULT 12
#define LOCAL_ATOMIC 13
#define ADD 14
#define LOGIC 15
// 16 is `images`.
#define SINGLE 17
#define DOUBLE 18
// Words of `put`, 0 at first, that are scattered over all of it: loads, stores, atomics.
#define GATHER 19
#define SCATTER 20
#define APART 21
#define BITS 22
// Stores side by side, and barriers alone.
#define STORE 23
#define WAIT 24
// Conversions to the limits of a type, and from and to half precision.
#define SATURATED 25
#define HALF 26

#define EACH(s) s(x) s(y) s(z) s(w)

// A place that has nothing to do with those of its neighbours (the finaliser of a hash).
uint scattered(uint at)
{
    at = (at ^ at >> 16) * 0x7FEB352Du;
    at = (at ^ at >> 15) * 0x846CA68Bu;
    return at ^ at >> 16;
}

#ifdef IMAGE
// Reads of an image of 1024 x 1024 texels, neighbours side by side: texel t is t * 2654435761. Leaves in out[i] the sum of what was read.
constant sampler_t plain = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_NEAREST;

kernel SIZED void images(global uint *out, read_only image2d_t image, uint trips)
{
    const uint i = (uint)get_global_id(0);
    uint sum = 0, at = i;
    for (uint j = 0; j < trips; j++) {
        TIMES16(sum += read_imageui(image, plain, (int2)((int)(at & 1023u), (int)(at >> 10 & 1023u))).x; at += 33u * 1024u;)
    }
    out[i] = sum;
}
#else

kernel SIZED void ceilings(global uint *out, constant uint *table, global uint *put, uint trips, uint a, uint b)
{
    const uint i = (uint)get_global_id(0), l = (uint)get_local_id(0);
#if KIND >= LONG_ADD && KIND <= LONG_DIV
    ulong x = (ulong)i * 0x9E3779B97F4A7C15ul, y = x + 1, z = x + 2, w = x + 3;
#elif KIND == ROOT || KIND == DOUBLE
    double x = (double)i, y = x + 1, z = x + 2, w = x + 3;
#elif KIND == SINGLE
    float x = (float)i, y = x + 1, z = x + 2, w = x + 3;
#else
    uint x = i * 2654435761u, y = x + 1, z = x + 2, w = x + 3;
#endif
#if KIND == BARRIER || KIND == WAIT || KIND == LOCAL_ATOMIC || KIND == HALF
    local uint scratch[1024];
    scratch[l] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
#endif
#if KIND == SINGLE
    const float by = 1.0f / (float)a, more = (float)b;
#elif KIND == DOUBLE
    const double by = 1.0 / (double)a, more = (double)b;
#elif KIND == PRIVATE
    uint own[32];
    for (uint k = 0; k < 32; k++) {
        own[k] = x + k;
    }
#endif
    // Of CONSTANT: all items of a launch side by side read one word, or each one of another line.
#if KIND >= GATHER && KIND <= APART || KIND == STORE
    uint at = i;
#else
    uint at = b * i;
#endif
    for (uint j = 0; j < trips; j++) {
#if KIND == MUL
#define STEP(v) v = v * a + b;
        TIMES4(EACH(STEP))
#elif KIND == DIV
#define STEP(v) v ^= (v ^ 0x9E3779B9u) / ((v >> 16) | 1u);
        EACH(STEP)
#elif KIND == LOGIC
        // A shift to the left may be a product, which another unit makes.
        TIMES4(x = (x >> 5) ^ y; y = (y >> 3) ^ z; z = (z >> 7) ^ w; w = (w >> 11) ^ x;)
#elif KIND == BITS
        TIMES4(x = y + popcount(x); y = z + popcount(y); z = w + popcount(z); w = x + popcount(w);)
#elif KIND == LONG_ADD || KIND == ADD
        TIMES4(x += y; y += z; z += w; w += x;)
#elif KIND == LONG_MUL
#define STEP(v) v = v * ((ulong)a << 32 | a) + b;
        TIMES4(EACH(STEP))
#elif KIND == LONG_DIV
#define STEP(v) v ^= (v ^ 0x9E3779B97F4A7C15ul) / ((v >> 32) | 1ul);
        EACH(STEP)
#elif KIND == CONVERT
#define STEP(v) v ^= (uint)(float)(v >> 1);
        TIMES4(EACH(STEP))
#elif KIND == SATURATED
#define STEP(v) v += convert_uchar_sat((float)(v >> 1) * 1e-7f);
        TIMES4(EACH(STEP))
#elif KIND == HALF
#define STEP(v) vstore_half((float)(v & 32767u), l, (local half *)scratch); v += (uint)vload_half(l, (local half *)scratch);
        TIMES4(EACH(STEP))
#elif KIND == ROOT
#define STEP(v) v = sqrt(v + 1.5);
        EACH(STEP)
#elif KIND == SINGLE || KIND == DOUBLE
#if KIND == SINGLE
#define STEP(v) v = mad(v, by, more);
#else
#define STEP(v) v = fma(v, by, more);
#endif
        TIMES4(EACH(STEP))
#elif KIND == CONSTANT
        // No address is computed for each: that would take longer than the read.
        constant const uint *row = table + (at & 992u) + (b ? i & 15u : 0u);
        x ^= row[0]; y ^= row[1]; z ^= row[2]; w ^= row[3]; x ^= row[4]; y ^= row[5]; z ^= row[6]; w ^= row[7];
        x ^= row[8]; y ^= row[9]; z ^= row[10]; w ^= row[11]; x ^= row[12]; y ^= row[13]; z ^= row[14]; w ^= row[15];
        at += a;
#elif KIND == PRIVATE
#define STEP(v) at = at * 5u + 1u; own[at & 31u] += v; v ^= own[(at >> 5) & 31u];
        EACH(STEP)
#elif KIND == BARRIER
#define STEP(v) scratch[l] = v; barrier(CLK_LOCAL_MEM_FENCE); v += scratch[l ^ 1u]; barrier(CLK_LOCAL_MEM_FENCE);
        EACH(STEP)
#elif KIND == WAIT
#define STEP(v) barrier(CLK_LOCAL_MEM_FENCE);
        TIMES4(EACH(STEP))
#elif KIND == STORE
#define STEP(v) put[at & a] = v + at; at += b;
        TIMES4(EACH(STEP))
#elif KIND == ATOMIC
#define STEP(v) atomic_add(&put[at & a], 1u); at += 4099u * 32u;
        EACH(STEP)
#elif KIND == RESULT
#define STEP(v) v ^= atomic_add(&put[at & a], 1u); at += 4099u * 32u;
        EACH(STEP)
#elif KIND == GATHER
#define STEP(v) v ^= put[scattered(at) & a]; at += b;
        TIMES4(EACH(STEP))
#elif KIND == SCATTER
#define STEP(v) put[scattered(at) & a] = v; at += b;
        TIMES4(EACH(STEP))
#elif KIND == APART
#define STEP(v) atomic_add(&put[scattered(at) & a], 1u); at += b;
        EACH(STEP)
#elif KIND == LOCAL_ATOMIC
#define STEP(v) atomic_add(&scratch[l & a], v);
        EACH(STEP)
#endif
    }
#if KIND == ROOT || KIND == SINGLE || KIND == DOUBLE
    out[i] = (uint)((x + y + z + w) * 1e6);
#elif KIND == LOCAL_ATOMIC
    barrier(CLK_LOCAL_MEM_FENCE);
    out[i] = scratch[l & a];
#elif KIND >= LONG_ADD && KIND <= LONG_DIV
    // The upper half: of the lower one alone, compilers leave the upper one out.
    out[i] = (uint)((x ^ y * 3 ^ z * 5 ^ w * 7) >> 32);
#else
    // So that what all four chains have alike does not cancel.
    out[i] = x ^ y * 3 ^ z * 5 ^ w * 7;
#endif
}
#endif

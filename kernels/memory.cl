// Memory throughput on uint x WIDTH. `trips` elements of WIDTH words per work-item, one global size apart from each
// other, so that neighbours always touch neighbours; the buffers hold trips x global size elements.
// Word w of the source is w * 2654435761 (kernel `fill`), so that every result tells which words it came from.
// A correct run: copies equal their source; `put` leaves each element's number; the reading kernels leave in every work-item's
// element the sum (modulo 2^32) over the elements that the host's own index arithmetic names.

kernel SIZED void fill(global uint *words)
{
    const uint i = (uint)get_global_id(0);
    words[i] = i * 2654435761u;
}

// Every word leads to itself: for chains that stay where they are.
kernel SIZED void own(global uint *words)
{
    words[get_global_id(0)] = (uint)get_global_id(0);
}

// The copy loop of the Gen9.5 thesis (Duarte 2018): the same element again and again. It measures
// the nearest cache.
kernel SIZED void copy_loop(global VECTOR *to, global const VECTOR *from, uint trips)
{
    const size_t i = get_global_id(0);
    volatile global VECTOR *out = to;
    volatile global const VECTOR *in = from;
    for (uint j = 0; j < trips; j++) {
        out[i] = in[i];
    }
}

kernel SIZED void copy(global VECTOR *restrict to, global const VECTOR *restrict from, uint trips)
{
    const size_t i = get_global_id(0), n = get_global_size(0);
#pragma unroll 4
    for (uint j = 0; j < trips; j++) {
        to[i + j * n] = from[i + j * n];
    }
}

kernel SIZED void put(global VECTOR *restrict to, global const VECTOR *restrict from, uint trips)
{
    const size_t i = get_global_id(0), n = get_global_size(0);
#pragma unroll 4
    for (uint j = 0; j < trips; j++) {
        to[i + j * n] = (VECTOR)((uint)(i + j * n));
    }
}

kernel SIZED void get(global VECTOR *restrict to, global const VECTOR *restrict from, uint trips)
{
    const size_t i = get_global_id(0), n = get_global_size(0);
    VECTOR sum = (VECTOR)(0);
#pragma unroll 8
    for (uint j = 0; j < trips; j++) {
        sum += from[i + j * n];
    }
    to[i] = sum;
}

// One working set of mask + 1 elements (a power of two) again and again, by all groups. `hop` is an odd number of groups of
// items, so that each group walks over the whole set. Leaves the sums of what was read.
kernel SIZED void again(global VECTOR *restrict to, global const VECTOR *restrict from, uint trips, uint mask, uint hop)
{
    const uint i = (uint)get_global_id(0);
    VECTOR sum = (VECTOR)(0);
#pragma unroll 8
    for (uint j = 0; j < trips; j++) {
        sum += from[(i + j * hop) & mask];
    }
    to[i] = sum;
}

// The same with neighbouring items side by side in a way that compilers for CPUs see, which make vectors of them: mask + 1 and hop
// are multiples of a group.
kernel SIZED void along(global VECTOR *restrict to, global const VECTOR *restrict from, uint trips, uint mask, uint hop)
{
    const uint l = (uint)get_local_id(0), first = (uint)(get_group_id(0) * get_local_size(0));
    VECTOR sum = (VECTOR)(0);
    for (uint j = 0; j < trips; j++) {
        sum += from[((first + j * hop) & mask) + l];
    }
    to[get_global_id(0)] = sum;
}

// Nothing: what is left is the cost of launching and of work-groups. `never` is 0.
kernel SIZED void nothing(global uint *to, uint never)
{
    if (never) {
        to[get_global_id(0)] = never;
    }
}

// Neighbours are `stride` elements apart; every element is still read once. The number of elements is a power of two.
kernel SIZED void strided(global VECTOR *restrict to, global const VECTOR *restrict from, uint trips, uint stride)
{
    const uint i = (uint)get_global_id(0), n = (uint)get_global_size(0);
    const uint total = n * trips, columns = total / stride;
    VECTOR sum = (VECTOR)(0);
#pragma unroll 8
    for (uint j = 0; j < trips; j++) {
        const uint e = i + j * n;
        sum += from[(e % columns) * stride + e / columns];
    }
    to[i] = sum;
}

// Element numbers go through a multiply-xor permutation of [0, total): no two neighbours stay together.
kernel SIZED void scattered(global VECTOR *restrict to, global const VECTOR *restrict from, uint trips)
{
    const uint i = (uint)get_global_id(0), n = (uint)get_global_size(0);
    const uint mask = n * trips - 1u;
    VECTOR sum = (VECTOR)(0);
#pragma unroll 8
    for (uint j = 0; j < trips; j++) {
        uint e = (i + j * n) & mask;
        e = (e * 0x9E3779B1u) & mask;
        e ^= e >> 7;
        e = (e * 0x85EBCA6Bu) & mask;
        sum += from[e];
    }
    to[i] = sum;
}

// Local memory: every work-item reads words CONFLICT apart from its neighbours' (1: every bank its own; 2: two items
// to a bank, and so on, for devices whose banks are one word wide). All move on by the same numbers of words, which leaves the
// conflicts as they are; the 16 reads of a round lie at fixed places behind one address, so that nothing but the read and the sum
// is paid for each. LOCAL_WORDS is a power of two; rounds begin in its lower half.
kernel SIZED void shared_reads(global uint *to, global const uint *from, uint trips, local uint *tile)
{
    const uint l = (uint)get_local_id(0);
    for (uint k = l; k < LOCAL_WORDS; k += (uint)get_local_size(0)) {
        tile[k] = k * 2654435761u;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    uint sum = 0;
    for (uint j = 0; j < trips; j++) {
        local const uint *at = tile + ((l * CONFLICT + j * 593u) & (LOCAL_WORDS / 2 - 1));
        sum += at[0] + at[37] + at[74] + at[111] + at[148] + at[185] + at[222] + at[259];
        sum += at[296] + at[333] + at[370] + at[407] + at[444] + at[481] + at[518] + at[555];
    }
    to[get_global_id(0)] = sum;
}

// The structure of a device, seen from the time that simple loops take. One kernel per question; all are run over a range
// of groups, group sizes or sizes of the question, and the host looks for the points where the time changes its ways.
// Every kernel leaves what the host computes for the same loop; the racing ones state what they may leave instead.

// Pipeline depth, batches, cores, the saw-tooth: a chain of dependent steps. Leaves the chain's value. An exclusive or in each,
// because a compiler makes one step of sixteen products and sums.
kernel SIZED void steps(global uint *out, uint trips)
{
    uint x = (uint)get_global_id(0) + 1u;
    for (uint j = 0; j < trips; j++) {
        TIMES16(x = (x ^ 0x9e3779b9u) * 1664525u;)
    }
    out[get_global_id(0)] = x;
}

// Fusion and vector units: PAIRS independent chains of a multiplication and an addition each (VECTOR wide).
// -DSPLIT does the two on different variables, so that they could never fuse. Leaves the chains' sum.
#ifdef PAIRS
kernel SIZED void pairs(global VECTOR *out, uint trips, SCALAR p, SCALAR q)
{
    VECTOR x[PAIRS], y[PAIRS];
    for (uint k = 0; k < PAIRS; k++) {
        x[k] = (VECTOR)((SCALAR)(k + 1u));
        y[k] = (VECTOR)((SCALAR)(k + 2u));
    }
    const VECTOR vp = (VECTOR)(p), vq = (VECTOR)(q);
    for (uint j = 0; j < trips; j++) {
#pragma unroll
        for (uint k = 0; k < PAIRS; k++) {
#ifdef SPLIT
            TIMES8(x[k] = x[k] * vp; y[k] = y[k] + vq;)
#else
            TIMES8(x[k] = x[k] * vp + vq;)
#endif
        }
    }
    VECTOR sum = (VECTOR)(0);
    for (uint k = 0; k < PAIRS; k++) {
#ifdef SPLIT
        sum += x[k] + y[k];
#else
        sum += x[k];
#endif
    }
    out[get_global_id(0)] = sum;
}
#endif

// Dependent products and sums in turn, COUPLES of them a turn, while there are turns left and no x is 0 (VECTOR wide). x and y begin as p and q.
// Leaves x + y.
#ifdef COUPLES
#if WIDTH == 1
#define NOT_ZERO(x) ((x) != (SCALAR)0)
#else
#define NOT_ZERO(x) all((x) != (VECTOR)((SCALAR)0))
#endif
kernel SIZED void couples(global VECTOR *out, uint trips, SCALAR p, SCALAR q)
{
    VECTOR x = (VECTOR)(p), y = (VECTOR)(q);
    for (uint j = 0; j < trips && NOT_ZERO(x); j++) {
#pragma unroll
        for (uint k = 0; k < COUPLES; k++) {
            y = x * y;
            x = x + y;
        }
    }
    out[get_global_id(0)] = x + y;
}
#endif

// Fusion of a comparison and an AND: a dependent step a turn, in a loop with one condition, or with two (-DBOTH). Leaves the chain's value.
// The constants are arguments, and the loop is not unrolled: a compiler makes one step of many turns of a loop with one condition.
#ifdef CONDITIONS
kernel SIZED void conditions(global uint *out, uint trips, uint x, uint a, uint c)
{
#pragma unroll 1
#ifdef BOTH
    for (uint j = 0; j < trips && x != 0u; j++) {
#else
    for (uint j = 0; j < trips; j++) {
#endif
        x = x * a + c;
    }
    out[get_global_id(0)] = x;
}
#endif

// Register file: LIVE variables that are all alive through the loop. Leaves their sum.
#ifdef LIVE
kernel SIZED void registers(global uint *out, uint trips, uint p)
{
    uint x[LIVE];
    const uint i = (uint)get_global_id(0);
#pragma unroll
    for (uint k = 0; k < LIVE; k++) {
        x[k] = i + k;
    }
    for (uint j = 0; j < trips; j++) {
#pragma unroll
        for (uint k = 0; k < LIVE; k++) {
            x[k] = x[k] * p + x[(k + 1) % LIVE];
        }
    }
    uint sum = 0;
#pragma unroll
    for (uint k = 0; k < LIVE; k++) {
        sum += x[k];
    }
    out[i] = sum;
}
#endif

// Store and load delay: the same loop with a store, with a dependent load from the nearest cache. Leave trips - 1, and the word that the
// loads lead to.
kernel SIZED void store(global volatile uint *out, uint trips)
{
    for (uint j = 0; j < trips; j++) {
        out[get_global_id(0)] = j;
    }
}
kernel SIZED void load(global uint *out, uint trips)
{
    uint at = (uint)get_global_id(0);
    for (uint j = 0; j < trips; j++) {
        at = out[at];
    }
    out[get_global_id(0)] = at;
}

// Races and false sharing: every item adds 1 to the word at (its group) * gap + (its place in the group) * spread, `trips` times.
// Words of one's own must end at trips exactly; a word shared in a group (spread = 0) or between groups (gap = 0) ends anywhere from 1 to trips x items:
// how far below the upper end tells how much the device loses.
kernel SIZED void add_ones(global volatile uint *out, uint trips, uint gap, uint spread)
{
    const uint at = (uint)get_group_id(0) * gap + (uint)get_local_id(0) * spread;
    for (uint j = 0; j < trips; j++) {
        out[at] = out[at] + 1u;
    }
}

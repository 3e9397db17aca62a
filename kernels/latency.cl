// Latency hiding: a chain of dependent instructions in every work-item, as many groups on a compute unit as their local
// memory leaves room for. ILP independent chains run in each item.
//   -DKIND_ADD|BARRIER|BRANCH|LOOP|OPERANDS|SPECIAL|LOCAL|STREAM|RANDOM   what the chain is made of: BARRIER: an addition behind a
//   barrier; BRANCH: behind a branch on its operand, which is never taken; LOOP: in a loop that stays one, with its counter and
//   branch; OPERANDS: a product and a sum whose other operands lie CONFLICT registers apart
//   -DILP=1|2|4    -DALPHA=N: N dependent additions behind every instruction of the chain (SPECIAL and accesses; ILP 1)
//   -DWIDE (STREAM): accesses of four words, which hold the same number
//   -DCONFLICT=1|2|4 words between neighbours in LOCAL   -DSTRIDE=1|2 the same in STREAM
// Arguments: out, table (words that lead to words: a power of two of them), trips (of 16 instructions x ILP), mask (words of the
// chain - 1), step (of the additions), pad: local memory, of which LOCAL uses mask + 1 words; the rest limits how many groups fit.
// A correct run leaves in out[i] the word (or the value) that the host reaches by walking the same chains.

// One link of each chain; LINK is what the kind makes of it.
#if ILP == 1
#define LINKS LINK(0)
#elif ILP == 2
#define LINKS LINK(0) LINK(1)
#else
#define LINKS LINK(0) LINK(1) LINK(2) LINK(3)
#endif

#ifdef ALPHA
// ALPHA additions, each dependent on the one before. A constant number, so that nothing but they runs; by 64 in a loop, so that
// they stay in the instruction cache.
#define STEP y = step - y;
#if ALPHA & 32
#define STEPS32 TIMES32(STEP)
#else
#define STEPS32
#endif
#if ALPHA & 16
#define STEPS16 TIMES16(STEP)
#else
#define STEPS16
#endif
#if ALPHA & 8
#define STEPS8 TIMES8(STEP)
#else
#define STEPS8
#endif
#if ALPHA & 4
#define STEPS4 TIMES4(STEP)
#else
#define STEPS4
#endif
#if ALPHA & 2
#define STEPS2 TIMES2(STEP)
#else
#define STEPS2
#endif
#if ALPHA & 1
#define STEPS1 STEP
#else
#define STEPS1
#endif
#define ADDITIONS \
    for (uint m = 0; m < ALPHA / 64; m++) { TIMES32(STEP) TIMES32(STEP) } \
    STEPS32 STEPS16 STEPS8 STEPS4 STEPS2 STEPS1
#endif

#ifndef STRIDE
#define STRIDE 1
#endif

// One access: the next word of the chain. Of a wide one all four words are needed, so that all are read.
#ifdef WIDE
uint next(global const uint4 *t, uint at)
{
    const uint4 v = t[at];
    return v.x & v.y & v.z & v.w;
}
#define NEXT(at) next((global const uint4 *)t, at)
#else
#define NEXT(at) t[at]
#endif

kernel SIZED void chain(global uint *out, global const uint *table, uint trips, uint mask, float step, local uint *pad)
{
    const uint i = (uint)get_global_id(0), l = (uint)get_local_id(0);
#if defined(KIND_ADD) || defined(KIND_BARRIER) || defined(KIND_BRANCH) || defined(KIND_LOOP) || defined(KIND_OPERANDS) || defined(KIND_SPECIAL)
    float x[ILP];
    for (uint k = 0; k < ILP; k++) {
        x[k] = (float)((i + k) % 4u + 1u);
    }
#if defined(KIND_OPERANDS)
    // All are 1, which the compiler cannot know. Read at once, so that they are likely to lie in a row.
    const float16 all = vload16(0, (global const float *)table);
    const float r[16] = {all.s0, all.s1, all.s2, all.s3, all.s4, all.s5, all.s6, all.s7, all.s8, all.s9, all.sa, all.sb, all.sc, all.sd,
        all.se, all.sf};
#endif
    for (uint j = 0; j < trips; j++) {
#if defined(ALPHA)
        for (uint n = 0; n < 16; n++) {
            // step is 0, which the compiler cannot know: y comes out as it went in but for its sign.
            float y = rsqrt(fabs(x[0]));
            ADDITIONS
            x[0] = y;
        }
#else
#if defined(KIND_ADD)
// Not x + step: a compiler was seen to make one product of a run of equal sums.
#define LINK(k) x[k] = step - x[k];
#elif defined(KIND_BARRIER)
#define LINK(k) barrier(CLK_LOCAL_MEM_FENCE); x[k] = step - x[k];
#elif defined(KIND_BRANCH)
// mask is 3: nothing comes near the limit. What is behind it has a loop, which no compiler makes a choice of.
#define LINK(k) if (x[k] > 100.0f * (float)mask) { for (uint q = 0; q < j; q++) { out[q] = j; } } x[k] = step - x[k];
#else
#define LINK(k) x[k] = rsqrt(x[k]);
#endif
#if defined(KIND_OPERANDS)
#define OPERANDS_(n) x[0] = mad(-x[0], r[n], r[(n + CONFLICT) % 16]);
        OPERANDS_(0) OPERANDS_(1) OPERANDS_(2) OPERANDS_(3) OPERANDS_(4) OPERANDS_(5) OPERANDS_(6) OPERANDS_(7)
        OPERANDS_(8) OPERANDS_(9) OPERANDS_(10) OPERANDS_(11) OPERANDS_(12) OPERANDS_(13) OPERANDS_(14) OPERANDS_(15)
#elif defined(KIND_LOOP)
#pragma unroll 1
        for (uint n = 0; n < 16; n++) {
            x[0] = step - x[0];
        }
#else
        TIMES16(LINKS)
#endif
#endif
    }
    float sum = 0.0f;
    for (uint k = 0; k < ILP; k++) {
        sum += x[k];
    }
#ifdef ALPHA
    sum = fabs(sum);
#endif
    out[i] = as_uint(sum);
#else
#if defined(KIND_LOCAL)
    local uint *t = pad;
    for (uint k = l; k <= mask; k += (uint)get_local_size(0)) {
        t[k] = (k + 32u * CONFLICT) & mask;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#else
    global const uint *t = table;
#endif
    uint at[ILP];
    for (uint k = 0; k < ILP; k++) {
#if defined(KIND_LOCAL)
        at[k] = (l * CONFLICT + k * 64u) & mask;
#else
        at[k] = (i + k * (uint)get_global_size(0)) * STRIDE & mask;
#endif
    }
    for (uint j = 0; j < trips; j++) {
#ifdef ALPHA
        for (uint n = 0; n < 16; n++) {
            uint x = NEXT(at[0]);
            // The additions depend on the word that was read, and the next address on them: step is 0, which the compiler cannot know,
            // so y comes out as it went in but for its sign. The word is the fraction of a number of [1, 2): no conversion, one
            // logical instruction before the additions and two behind them.
            const uint bits = x | 0x3F800000u;
            float y = as_float(bits);
            ADDITIONS
            at[0] = x ^ ((as_uint(y) ^ bits) & 0x7FFFFFFFu);
        }
#else
#define LINK(k) at[k] = NEXT(at[k]);
        TIMES16(LINKS)
#endif
    }
    uint sum = 0;
    for (uint k = 0; k < ILP; k++) {
        sum += at[k];
    }
    out[i] = sum;
#endif
}

// How many groups run at the same time: each counts itself in, works for a while and counts itself out; the largest count seen stays
// in counters[1].
kernel SIZED void resident(global volatile int *counters, uint trips, local uint *pad)
{
    if (get_local_id(0) == 0) {
        pad[0] = 0;
        const int now = atomic_inc(&counters[0]) + 1;
        atomic_max(&counters[1], now);
        uint x = (uint)get_group_id(0) | 1u;
        for (uint j = 0; j < trips; j++) {
            x = x * 1664525u + 1013904223u;
            pad[0] ^= x;
        }
        // Never true, but the loop above must have ended to know.
        atomic_sub(&counters[0], pad[0] == 0xFFFFFFFFu && trips == 0xFFFFFFFFu ? 2 : 1);
    }
    // All of a group stay as long as it counts: a device may give the places of those who have ended to another group.
    barrier(CLK_LOCAL_MEM_FENCE);
}

// Links a table: word w leads `hop` words on (RANDOM = 0), or along a permutation without short cycles (RANDOM = 1): a
// linear congruential step, full period by Hull and Dobell: multiplier 1 modulo 4, odd increment.
kernel SIZED void lay(global uint *table, uint mask, uint hop, uint random)
{
    const uint i = (uint)get_global_id(0);
    const uint next = random ? (i * 1664525u + 1013904223u) & mask : (i + hop) & mask;
#ifdef WIDE
    ((global uint4 *)table)[i] = (uint4)(next);
#else
    table[i] = next;
#endif
}

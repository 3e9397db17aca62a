// Arithmetic throughput: one operation, repeated, on SCALAR x WIDTH.
//   -DOP_ADD|SUB|MUL|DIV|MAD|FMA          the operation
//   -DSHAPE_SINGLE|LOOP|UNROLL|PRIVATE    one statement; a loop over global memory; the same, 64 statements a turn;
//                                         64 statements a turn on a private variable
//   -DINTEGER                             for int: two variables feed each other, since a sum of constants folds
// Arguments: a (read and written), b (second operand of LOOP and UNROLL), trips (of 64 statements), p and q.
// A correct run leaves in every a[i] what the same statements give on the host, bit for bit for every operation but
// division (2.5 ulp a step). Of the shapes, PRIVATE comes closest to the device's peak; the rest are bound by memory.
// MAD with p = 0.5 and q = 1 tends to 2 from everywhere, so no value ever overflows; with p = 1 it counts its steps.

#if defined(OP_ADD)
#define STEP(x, k) x = x + k;
#elif defined(OP_SUB)
#define STEP(x, k) x = x - k;
#elif defined(OP_MUL)
#define STEP(x, k) x = x * k;
#elif defined(OP_DIV)
#define STEP(x, k) x = k / x;
#elif defined(OP_MAD)
#define STEP(x, k) x = x * vp + vq;
#elif defined(OP_FMA)
#define STEP(x, k) x = fma(x, vp, vq);
#endif

#if defined(INTEGER) && (defined(OP_ADD) || defined(OP_SUB) || defined(OP_MUL))
#define PAIR STEP(y, x) STEP(x, y)
#else
#define PAIR STEP(x, vp) STEP(x, vq)
#endif

#if defined(OP_DIV)
#define MEMORY_STEP(k) a[i] = a[i] / b[i];
#elif defined(OP_MAD)
#define MEMORY_STEP(k) a[i] = a[i] * vp + b[i];
#elif defined(OP_FMA)
#define MEMORY_STEP(k) a[i] = fma(a[i], vp, b[i]);
#else
#define MEMORY_STEP(k) { VECTOR x = a[i]; STEP(x, b[i]) a[i] = x; }
#endif

kernel SIZED void flop(global VECTOR *a, global const VECTOR *b, uint trips, SCALAR p, SCALAR q)
{
    const size_t i = get_global_id(0);
    const VECTOR vp = (VECTOR)(p);
    const VECTOR vq = (VECTOR)(q);
#if defined(SHAPE_SINGLE)
    MEMORY_STEP()
#elif defined(SHAPE_LOOP)
    for (uint j = 0; j < trips * 64; j++) {
        MEMORY_STEP()
    }
#elif defined(SHAPE_UNROLL)
    for (uint j = 0; j < trips; j++) {
        TIMES32(MEMORY_STEP() MEMORY_STEP())
    }
#else
    VECTOR x = a[i];
    VECTOR y = vq;
    for (uint j = 0; j < trips; j++) {
        TIMES32(PAIR)
    }
    a[i] = x;
#endif
}

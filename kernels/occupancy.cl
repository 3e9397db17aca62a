// Four kernels without loops, as applications have them, at a set occupancy (Volkov 2016, sections 3.8 and 3.10): each work-item does
// one thing, and the local memory `pad`, which nothing reads, limits how many groups a compute unit holds.
// Every element is one number of a generator, so that the host knows what must come out: fraction(i) is in [0, 1).

float fraction(uint i)
{
    // 24 bits: a float holds them exactly.
    return (float)((i * 2654435761u) >> 8) * 0x1p-24f;
}

// What stands in the arrays before a launch.
kernel SIZED void fractions(global float *out)
{
    const uint i = (uint)get_global_id(0);
    out[i] = fraction(i);
}

// A permutation: nothing moved, or scattered by an odd factor and an offset modulo a power of two.
kernel SIZED void lay(global uint *out, uint mask, uint factor, uint offset)
{
    const uint i = (uint)get_global_id(0);
    const uint x = (i * factor + offset) & mask;
    // Multiplying alone leaves equal distances between neighbours; mixing high bits into low ones does not.
    out[i] = factor == 1u ? i : (x ^ (x >> 9)) * factor & mask;
}

// c[i] = a[i] + b[i].
kernel SIZED void vector_add(global const float *a, global const float *b, global float *c, local uint *pad)
{
    const uint i = (uint)get_global_id(0);
    c[i] = a[i] + b[i];
}

// a[i] = b[at[i]].
kernel SIZED void permute(global const float *b, global const uint *at, global float *a, local uint *pad)
{
    const uint i = (uint)get_global_id(0);
    a[i] = b[at[i]];
}

// Writes an element back with its sign changed where it is below `least`: none, or all, so that every launch finds the same work.
kernel SIZED void change_sign(global float *a, float least, local uint *pad)
{
    const uint i = (uint)get_global_id(0);
    const float x = a[i];
    if (x < least) {
        a[i] = -x;
    }
}

// The normal distribution up to d: a rational approximation (Abramowitz and Stegun, 26.2.17).
float normal(float d)
{
    const float k = 1.0f / (1.0f + 0.2316419f * fabs(d));
    const float tail = 0.39894228f * exp(-0.5f * d * d) * k
        * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    return d > 0.0f ? 1.0f - tail : tail;
}

// Prices of a call and a put by Black and Scholes: price 5 to 30, strike 1 to 100, 0.25 to 10 years, 2 % a year, volatility 0.3.
kernel SIZED void black_scholes(global const float *price, global const float *strike, global const float *years,
    global float *call, global float *put, local uint *pad)
{
    const uint i = (uint)get_global_id(0);
    const float s = 5.0f + 25.0f * price[i], x = 1.0f + 99.0f * strike[i], t = 0.25f + 9.75f * years[i];
    const float root = sqrt(t);
    const float d1 = (log(s / x) + (0.02f + 0.5f * 0.3f * 0.3f) * t) / (0.3f * root);
    const float d2 = d1 - 0.3f * root;
    const float n1 = normal(d1), n2 = normal(d2), later = x * exp(-0.02f * t);
    call[i] = s * n1 - later * n2;
    put[i] = later * (1.0f - n2) - s * (1.0f - n1);
}

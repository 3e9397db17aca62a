// Vectors at any address, and half precision: what each item moves is counted by hand in the test.
kernel void vectors(global const uchar *in, global float *out, global half *small, local int *near)
{
    int i = get_global_id(0);
    uchar3 p = vload3(i, in);              // 3 bytes read
    int2 q = vload2(0, near);              // 8 bytes of local memory read
    vstore4((float4)(p.x, p.y, p.z, q.x + q.y), i, out); // 16 bytes written
    vstore_half(vload_half(i, small) * 2, i, small);      // 2 read, 2 written
    vstore_half4(vload_half4(i, small), i, small);        // 8 read, 8 written
}

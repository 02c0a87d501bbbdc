// Reductions of a warp by one instruction.
extern "C" __global__ void reduce(const int *x, int *out) {
    int v = x[threadIdx.x];
    out[threadIdx.x] = __reduce_add_sync(0xffffffffu, v);
    out[threadIdx.x + 32] = __reduce_min_sync(0xffffffffu, v);
    out[threadIdx.x + 64] = (int)__reduce_max_sync(0xffffffffu, (unsigned)v);
    out[threadIdx.x + 96] = (int)__reduce_xor_sync(0xffffffffu, (unsigned)v);
}

// Threads that work together: shared memory, barriers, shuffles, votes and atomics.
extern "C" __global__ void sum_shared(const float *x, float *out, unsigned n) {
    __shared__ float part[128];
    float sum = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (unsigned step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
}
extern "C" __global__ void sum_shuffled(const float *x, float *out) {
    float v = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(0xffffffffu, v, step);
    if (threadIdx.x % 32 == 0) out[(blockIdx.x * blockDim.x + threadIdx.x) / 32] = v;
}
extern "C" __global__ void shuffles(const unsigned *x, unsigned *out) {
    unsigned i = threadIdx.x, v = x[i];
    out[i] = __shfl_sync(0xffffffffu, v, (i * 7) & 31);
    out[i + 32] = __shfl_up_sync(0xffffffffu, v, 3);
    out[i + 64] = __shfl_down_sync(0xffffffffu, v, 5);
    out[i + 96] = __shfl_xor_sync(0xffffffffu, v, 9);
    out[i + 128] = __shfl_down_sync(0xffffffffu, v, 2, 8);
    out[i + 160] = __shfl_sync(0xffffffffu, v, 1, 4);
}
// Half of the lanes branch off and come back before the shuffle.
extern "C" __global__ void diverged_shuffle(unsigned *out, const unsigned *x) {
    unsigned v = x[threadIdx.x];
    if (v & 1) {
        for (unsigned k = 0; k < v; k++) v += k;
    } else {
        v *= 2;
    }
    out[threadIdx.x] = __shfl_down_sync(0xffffffffu, v, 1);
}
extern "C" __global__ void votes(const unsigned *x, unsigned *out) {
    unsigned v = x[threadIdx.x];
    unsigned ballot = __ballot_sync(0xffffffffu, v > 10);
    unsigned all = __all_sync(0xffffffffu, v < 100), any = __any_sync(0xffffffffu, v > 100);
    unsigned active = 0;
    if (v & 1) active = __activemask();
    out[threadIdx.x * 4] = ballot, out[threadIdx.x * 4 + 1] = all, out[threadIdx.x * 4 + 2] = any;
    out[threadIdx.x * 4 + 3] = active;
}
extern "C" __global__ void matches(const unsigned *x, unsigned *out) {
    out[threadIdx.x] = __match_any_sync(0xffffffffu, x[threadIdx.x]);
}
extern "C" __global__ void histogram(const unsigned *x, unsigned *bins, unsigned n) {
    __shared__ unsigned local[16];
    if (threadIdx.x < 16) local[threadIdx.x] = 0;
    __syncthreads();
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&local[x[i] % 16], 1u);
    __syncthreads();
    if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}
extern "C" __global__ void atomics(unsigned *u, int *s, unsigned long long *l, float *f, double *d) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(u, i), atomicMax(u + 1, i), atomicMin(u + 2, i), atomicOr(u + 3, 1u << (i % 32)), atomicAnd(u + 4, ~(1u << (i % 32)));
    atomicXor(u + 5, i), atomicInc(u + 6, 9), atomicDec(u + 7, 9), atomicExch(u + 8, 5u), atomicCAS(u + 9, 0u, 77u);
    atomicMin(s, -(int)i), atomicMax(s + 1, (int)i - 300), atomicAdd(l, 1ull << 33), atomicAdd(f, 0.5f), atomicAdd(d, 0.25);
}
extern "C" __global__ void reversed(const float *x, float *y) {
    extern __shared__ float dynamic[];
    dynamic[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = dynamic[blockDim.x - 1 - threadIdx.x];
}
// Threads that have returned are not waited for.
extern "C" __global__ void early_exit(unsigned *y) {
    __shared__ unsigned value;
    if (threadIdx.x >= 40) return;
    if (threadIdx.x == 39) value = 11;
    __syncthreads();
    y[threadIdx.x] = value;
}
// Two groups of warps at barriers of their own.
extern "C" __global__ void named(unsigned *y) {
    __shared__ unsigned part[128];
    unsigned group = threadIdx.x / 64;
    part[threadIdx.x] = threadIdx.x;
    asm volatile("bar.sync %0, 64;" :: "r"(group + 1) : "memory");
    y[threadIdx.x] = part[threadIdx.x ^ 63];
}

// cp.async of every size, with zero fill, and barriers in shared memory.
#include <cuda_pipeline.h>
template <int BYTES> __device__ void copy(const unsigned char *x, unsigned char *y, unsigned used) {
    __shared__ __align__(16) unsigned char staged[32 * BYTES];
    unsigned char *to = staged + threadIdx.x * BYTES;
    unsigned target = (unsigned)__cvta_generic_to_shared(to);
    const unsigned char *from = x + threadIdx.x * BYTES;
    if (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], %2, %3;" :: "r"(target), "l"(from), "n"(BYTES), "r"(used));
    else asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" :: "r"(target), "l"(from), "n"(BYTES), "r"(used));
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    for (int k = 0; k < BYTES; k++) y[threadIdx.x * BYTES + k] = staged[(31 - threadIdx.x) * BYTES + k];
}
extern "C" __global__ void copy4(const unsigned char *x, unsigned char *y, unsigned used) { copy<4>(x, y, used); }
extern "C" __global__ void copy8(const unsigned char *x, unsigned char *y, unsigned used) { copy<8>(x, y, used); }
extern "C" __global__ void copy16(const unsigned char *x, unsigned char *y, unsigned used) { copy<16>(x, y, used); }
// The first warp waits for the others, phase after phase.
extern "C" __global__ void phases(unsigned *y) {
    __shared__ unsigned long long barrier;
    __shared__ unsigned sum;
    unsigned at = (unsigned)__cvta_generic_to_shared(&barrier);
    if (threadIdx.x == 0) {
        sum = 0;
        asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at), "r"(blockDim.x) : "memory");
    }
    __syncthreads();
    for (unsigned phase = 0; phase < 4; phase++) {
        atomicAdd(&sum, threadIdx.x + phase);
        unsigned long long token;
        asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(at) : "memory");
        unsigned done = 0;
        while (!done)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at), "l"(token) : "memory");
        y[phase * blockDim.x + threadIdx.x] = sum;
        __syncthreads();
    }
}

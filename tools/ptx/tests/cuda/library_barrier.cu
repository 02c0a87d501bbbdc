// The barriers of CUDA's library, which CubeCL uses: instructions from sm_80 on, loops around atomics before.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
extern "C" __global__ void exchanged(const float *x, float *y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> barrier;
    __shared__ __align__(16) float staged[128];
    if (threadIdx.x == 0) init(&barrier, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(staged + threadIdx.x, x + threadIdx.x, 4, barrier);
    auto token = barrier.arrive();
    barrier.wait(std::move(token));
    float first = staged[threadIdx.x ^ 1];
    barrier.arrive_and_wait();
    cuda::memcpy_async(cooperative_groups::this_thread_block(), staged, x + 4, 256, barrier);
    barrier.arrive_and_wait();
    barrier.wait_parity(0);
    y[threadIdx.x] = first + 1000 * staged[threadIdx.x % 64];
}

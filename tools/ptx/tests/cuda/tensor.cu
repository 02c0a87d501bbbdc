// wmma by CUDA's own classes: a tile a warp, in every shape, from global and shared memory.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda::wmma;
template <int M, int N, typename Accumulator, typename LayoutA, typename LayoutB>
__device__ void product(const __half *a, const __half *b, Accumulator *c, int lda, int ldb) {
    __shared__ __half staged[512];
    for (int i = threadIdx.x; i < M * 16; i += 32) staged[i] = a[i];
    __syncwarp();
    fragment<matrix_a, M, N, 16, __half, LayoutA> fa;
    fragment<matrix_b, M, N, 16, __half, LayoutB> fb;
    fragment<accumulator, M, N, 16, Accumulator> fc;
    fill_fragment(fc, (Accumulator)0.5f);
    load_matrix_sync(fa, staged, lda);
    load_matrix_sync(fb, b, ldb);
    mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] * (Accumulator)2.0f;
    store_matrix_sync(c, fc, N, mem_row_major);
}
extern "C" __global__ void square(const __half *a, const __half *b, float *c) { product<16, 16, float, row_major, col_major>(a, b, c, 16, 16); }
extern "C" __global__ void wide(const __half *a, const __half *b, float *c) { product<8, 32, float, row_major, row_major>(a, b, c, 16, 32); }
extern "C" __global__ void tall(const __half *a, const __half *b, float *c) { product<32, 8, float, col_major, row_major>(a, b, c, 32, 8); }
extern "C" __global__ void halves(const __half *a, const __half *b, __half *c) { product<16, 16, __half, row_major, row_major>(a, b, c, 16, 16); }

// One thread an element: guards, loops, divergence, local arrays and functions of CUDA's library.
extern "C" __global__ void axpy(const float *x, float *y, float a, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void strided_square(const float *x, float *y, unsigned n) {
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) y[i] = x[i] * x[i];
}
// Lanes leave the loop at different times, and take different branches in it.
extern "C" __global__ void collatz(const unsigned *x, unsigned *steps, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned value = x[i], count = 0;
    while (value != 1) {
        if (value % 2) value = 3 * value + 1;
        else value /= 2;
        count++;
        if (count > 200) break;
    }
    steps[i] = count;
}
extern "C" __global__ void switched(const unsigned *x, unsigned *y) {
    unsigned i = threadIdx.x, v = x[i];
    switch (v) {
        case 0: v = i * 3; break;
        case 1: v = i ^ 5; break;
        case 2: for (unsigned k = 0; k < i; k++) v += k * v; break;
        case 3: v = i << 3; break;
        case 4: v = ~i; // falls through
        case 5: v += 7; break;
        case 6: v = i / 3; break;
        default: v = 1000 + i;
    }
    y[i] = v;
}
extern "C" __global__ void local_array(const unsigned *x, unsigned *y) {
    unsigned i = threadIdx.x, history[8];
    for (unsigned k = 0; k < 8; k++) history[(k * x[i]) & 7] = k * 10 + i;
    y[i] = history[x[i] & 7] + history[(x[i] >> 3) & 7] * 1000;
}
struct Settings { unsigned scale[6]; float offset; };
extern "C" __global__ void by_value(float *y, Settings settings) {
    unsigned i = threadIdx.x;
    y[i] = settings.scale[i % 6] * 2.0f + settings.offset;
}
extern "C" __global__ void functions(const float *x, float *y, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    float *out = y + 10 * i;
    out[0] = expf(v), out[1] = logf(fabsf(v)), out[2] = sinf(v), out[3] = cosf(v), out[4] = tanhf(v);
    out[5] = erff(v), out[6] = powf(fabsf(v), 1.7f), out[7] = sqrtf(fabsf(v)), out[8] = floorf(v), out[9] = log1pf(fabsf(v));
}
extern "C" __global__ void doubles(const double *x, double *y) {
    unsigned i = threadIdx.x;
    y[i] = exp(x[i]) + x[i] / sqrt(1.0 + x[i] * x[i]);
}
extern "C" __global__ void grid3(unsigned *y) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, yy = blockIdx.y * blockDim.y + threadIdx.y, z = blockIdx.z * blockDim.z + threadIdx.z;
    unsigned width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    y[(z * height + yy) * width + x] = x + 100 * yy + 10000 * z;
}
extern "C" __global__ void trapped(unsigned *y, unsigned limit) {
    if (threadIdx.x >= limit) __trap();
    y[threadIdx.x] = 1;
}

// SPDX-License-Identifier: Apache-2.0

// Correct kernels that use much of what nvcc emits.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The softmax of each row, a block a row. Shuffles, shared memory, vector accesses, expf.
extern "C" __global__ void softmax(const float4* __restrict__ x, float4* __restrict__ y, int columns4) {
  __shared__ float part[8];
  const size_t row = static_cast<size_t>(blockIdx.x) * columns4;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float greatest = __int_as_float(0xff800000);
  for (int i = threadIdx.x; i < columns4; i += blockDim.x) {
    const float4 v = x[row + i];
    greatest = fmaxf(greatest, fmaxf(fmaxf(v.x, v.y), fmaxf(v.z, v.w)));
  }
  for (int offset = 16; offset > 0; offset /= 2) greatest = fmaxf(greatest, __shfl_xor_sync(~0u, greatest, offset));
  if (lane == 0) part[warp] = greatest;
  __syncthreads();
  for (int i = 0; i < blockDim.x / 32; ++i) greatest = fmaxf(greatest, part[i]);
  __syncthreads();
  float sum = 0.0f;
  for (int i = threadIdx.x; i < columns4; i += blockDim.x) {
    const float4 v = x[row + i];
    sum += expf(v.x - greatest) + expf(v.y - greatest) + expf(v.z - greatest) + expf(v.w - greatest);
  }
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0u, sum, offset);
  if (lane == 0) part[warp] = sum;
  __syncthreads();
  sum = 0.0f;
  for (int i = 0; i < blockDim.x / 32; ++i) sum += part[i];
  for (int i = threadIdx.x; i < columns4; i += blockDim.x) {
    float4 v = x[row + i];
    v.x = expf(v.x - greatest) / sum;
    v.y = expf(v.y - greatest) / sum;
    v.z = expf(v.z - greatest) / sum;
    v.w = expf(v.w - greatest) / sum;
    y[row + i] = v;
  }
}

// y[f][i] for functions f of x[i].
extern "C" __global__ void functions(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = x[i];
  y[0 * n + i] = tanhf(v);
  y[1 * n + i] = erff(v);
  y[2 * n + i] = sinf(v);
  y[3 * n + i] = logf(fabsf(v));
  y[4 * n + i] = powf(fabsf(v), 1.7f);
  y[5 * n + i] = sqrtf(fabsf(v));
  y[6 * n + i] = rsqrtf(fabsf(v));
  y[7 * n + i] = rintf(v);
  y[8 * n + i] = fmodf(v, 0.7f);
  y[9 * n + i] = static_cast<float>(exp(static_cast<double>(v)));
}

// z = x * y + x in half precisions.
extern "C" __global__ void halves(const __half2* x, const __half2* y, __half2* z, const __nv_bfloat16* a,
                                  const __nv_bfloat16* b, __nv_bfloat16* c, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  z[i] = __hfma2(x[i], y[i], x[i]);
  c[i] = __float2bfloat16_rn(__bfloat162float(a[i]) * __bfloat162float(b[i]));
}

// Integer division, wide products and bit operations.
extern "C" __global__ void integers(const long long* x, const int* d, long long* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[0 * n + i] = x[i] / d[i];
  y[1 * n + i] = x[i] % d[i];
  y[2 * n + i] = __mul64hi(x[i], x[i]);
  y[3 * n + i] = __popcll(x[i]) + 100 * __clzll(x[i]) + 10000 * __ffs(d[i]);
  y[4 * n + i] = __umulhi(static_cast<unsigned>(d[i]), 0xdeadbeefu) ^ __brev(d[i]) ^ __byte_perm(d[i], i, 0x5140);
  y[5 * n + i] = __funnelshift_l(d[i], i, 7) / 9u + (d[i] >> 3) + min(d[i], -5);
}

__device__ __noinline__ float Polynomial(const float* c, int n, float x) {
  float sum = 0.0f;
  for (int i = 0; i < n; ++i) sum = sum * x + c[i];
  return sum;
}

__constant__ float kCoefficients[5] = {1.0f, -2.0f, 0.5f, 3.0f, -1.5f};

// Calls a function that is not inlined, from divergent code, with constant memory.
extern "C" __global__ void calls(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  if (v > 0.0f) {
    v = Polynomial(kCoefficients, 5, v) + 1.0f;
  } else {
    v = Polynomial(kCoefficients + 1, 3, v);
  }
  y[i] = v;
}

// The sum of all elements: blocks add to partial sums, the last one to finish adds those in order.
extern "C" __global__ void sum_all(const float* x, float* partial, unsigned* done, float* result, int n) {
  extern __shared__ float values[];
  __shared__ bool last;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  values[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) values[threadIdx.x] += values[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = values[0];
    __threadfence();
    last = atomicAdd(done, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  __threadfence();
  float sum = 0.0f;
  for (int block = 0; block < gridDim.x; ++block) sum += partial[block];
  *result = sum;
}

// Counts bytes with atomics in shared and global memory.
extern "C" __global__ void histogram(const unsigned char* x, unsigned* counts, int n) {
  __shared__ unsigned local[256];
  for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&local[x[i]], 1u);
  __syncthreads();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    if (local[i] != 0) atomicAdd(&counts[i], local[i]);
  }
}

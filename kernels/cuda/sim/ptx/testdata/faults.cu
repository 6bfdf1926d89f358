// SPDX-License-Identifier: Apache-2.0

// Each kernel but `correct` has one fault that the interpreter must find. Blocks of 256 threads, two of them.

extern "C" __global__ void correct(const float* x, float* y, int n) {
  __shared__ float tile[256];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? x[i] : 0.0f;
  __syncthreads();
  if (i < n) y[i] = tile[255 - threadIdx.x];
}

extern "C" __global__ void dropped_barrier(const float* x, float* y, int n) {
  __shared__ float tile[256];
  tile[threadIdx.x] = x[threadIdx.x];
  y[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x ^ 128];
}

extern "C" __global__ void dropped_second_barrier(const float* x, float* y, int n) {
  __shared__ float tile[256];
  float sum = 0.0f;
  for (int round = 0; round < 2; ++round) {
    tile[threadIdx.x] = x[threadIdx.x] + round;
    __syncthreads();
    sum += tile[255 - threadIdx.x];
  }
  y[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void one_past_the_end(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x + 1;
  if (i <= n) y[i] = x[i - 1];
}

extern "C" __global__ void wrong_stride(const float* x, float* y, int n) {
  const int i = blockIdx.x * 255 + threadIdx.x;
  if (i < n) y[i] = x[i];
}

extern "C" __global__ void unaligned_vector(const float* x, float* y, int n) {
  const int i = threadIdx.x;
  if (i >= n / 4 - 1 || blockIdx.x != 0) return;
  const float4 v = *reinterpret_cast<const float4*>(x + 2 + 4 * i);
  y[i] = v.x + v.y + v.z + v.w;
}

extern "C" __global__ void race_between_blocks(const float* x, float* y, int n) {
  if (threadIdx.x == 0) y[0] = y[0] + x[blockIdx.x];
}

extern "C" __global__ void missing_initialisation(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += x[i];
}

extern "C" __global__ void missing_shared_initialisation(const float* x, float* y, int n) {
  __shared__ float tile[256];
  if (threadIdx.x != 7) tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x];
}

extern "C" __global__ void divergent_barrier(const float* x, float* y, int n) {
  __shared__ float tile[256];
  tile[threadIdx.x] = x[threadIdx.x];
  float v;
  if (threadIdx.x < 100) {
    __syncthreads();
    v = tile[threadIdx.x + 1];
  } else {
    v = x[0];
    __syncthreads();
    v += tile[threadIdx.x - 1];
  }
  y[blockIdx.x * blockDim.x + threadIdx.x] = v;
}

extern "C" __global__ void inactive_lane(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (threadIdx.x % 32 >= 24) return;
  y[i] = __shfl_xor_sync(0xffffffff, x[i], 16);
}

extern "C" __global__ void wrong_mask(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = __shfl_down_sync(0x7fffffff, x[i], 1);
}

extern "C" __global__ void wrong_restrict(const float* __restrict__ x, float* __restrict__ y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * 2.0f;
}

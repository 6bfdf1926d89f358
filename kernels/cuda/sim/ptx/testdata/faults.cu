// SPDX-License-Identifier: Apache-2.0

// Each kernel but `correct` and `waits` has one fault that the interpreter must find. Two blocks of 256 threads.

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

extern "C" __global__ void waits(const float* x, float* y, int n) {
  __shared__ float tile[256];
  tile[threadIdx.x] = threadIdx.x;
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] + tile[threadIdx.x];
}

extern "C" __global__ void reads_before_wait(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float value = *const_cast<const volatile float*>(x + i);
  asm volatile("griddepcontrol.wait;" ::: "memory");
  y[i] = value;
}

extern "C" __global__ void writes_before_wait(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 300) y[i] = 1.0f;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  if (i != 300) y[i] = x[i];
}

extern "C" __global__ void counts_before_wait(const float* x, float* y, int n) {
  if (threadIdx.x == 0) atomicAdd(y, 1.0f);
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

// A generic address.
extern "C" __global__ void selects_before_wait(const float* x, float* y, int n) {
  __shared__ float tile[256];
  tile[threadIdx.x] = 2.0f;
  const float* from = threadIdx.x == 40 && n > 0 ? x : tile;
  const float value = *reinterpret_cast<const volatile float*>(from + threadIdx.x);
  asm volatile("griddepcontrol.wait;" ::: "memory");
  y[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

extern "C" __global__ void exits_before_wait(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= 400) return;
  asm volatile("griddepcontrol.wait;" ::: "memory");
  y[i] = x[i];
}

#include "cotan/expr.cuh"
#include "cotan/reduce.cuh"

using namespace cotan;

__device__ uint64 words[1090];

extern "C" __global__ void __launch_bounds__(512, 1) expr_columns(
    const float* in0,
    const float* in1,
    const float* in2,
    const float* in3,
    float* out0,
    float* out1,
    const ErrorRecord* record) {
  WaitForEarlierWork();
  COTAN_RETURN_ON_ERROR(record);
  using Index = uint32;
  const uint32 block = blockIdx.x;
  const Index lane = threadIdx.x / 8u;
  Team<32> team(words + block / 32u * 545u);
  const Index k = static_cast<Index>(block / 32u) * 8u + threadIdx.x % 8u;
  const Index part = block % 32u;
  const Index begin = part * 128u;
  const Index end = begin + 128u < 4096u ? begin + 128u : 4096u;
  const float x2 = LoadBefore(in2 + k);
  const float x1 = LoadBefore(in1 + k);
  float t2 = Sum<float>::Start();
  float x0[2];
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const Index r = begin + j * 64u + lane;
    x0[j] = Load(in0 + (k + r * 16u));
    t2 = Sum<float>::Add(t2, x0[j]);
  }
  team.Meet();
  const float total2 = ReduceColumn<Sum<float>, 8, 64>(t2);
  if (lane == 0) {
    team.Publish(33u, part * 8u + threadIdx.x % 8u, total2);
  }
  if (team.Leaves(part)) return;
  t2 = team.Collect<Sum<float>, 8, 64>(33u, lane, threadIdx.x % 8u);
  const float v2 = ReduceColumn<Sum<float>, 8, 64>(t2);
  const float v3 = v2 * 0.000244140625f;
  if (team.is_last && lane == 0) {
    const float v18 = v3 * 0.100000001f;
    const float x3 = LoadBefore(in3 + k);
    const float v21 = x3 * 0.899999976f;
    const float v22 = v21 + v18;
    StoreAfter(out1 + k, v22);
  }
  float t6 = Sum<float>::Start();
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const Index r = begin + j * 64u + lane;
    const float v4 = x0[j] - v3;
    const float v5 = v4 * v4;
    t6 = Sum<float>::Add(t6, v5);
  }
  const float total6 = ReduceColumn<Sum<float>, 8, 64>(t6);
  if (lane == 0) {
    team.Publish(289u, part * 8u + threadIdx.x % 8u, total6);
  }
#pragma unroll 1
  for (uint32 n = 0; n < team.left; ++n) {
    const Index part = team.PartLeft(n);
    const Index begin = part * 128u;
    const Index end = begin + 128u < 4096u ? begin + 128u : 4096u;
    float t6 = Sum<float>::Start();
#pragma unroll 1
    for (Index first = begin + lane; first < end; first += 128u) {
      float x0[2] = {};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Index r = first + i * 64u;
        if (r < end) {
          x0[i] = Load(in0 + (k + r * 16u));
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Index r = first + i * 64u;
        if (r < end) {
          const float v4 = x0[i] - v3;
          const float v5 = v4 * v4;
          t6 = Sum<float>::Add(t6, v5);
        }
      }
    }
    const float total6 = ReduceColumn<Sum<float>, 8, 64>(t6);
    if (lane == 0) {
      team.Publish(289u, part * 8u + threadIdx.x % 8u, total6);
    }
  }
  t6 = team.Collect<Sum<float>, 8, 64>(289u, lane, threadIdx.x % 8u);
  const float v6 = ReduceColumn<Sum<float>, 8, 64>(t6);
  const float v7 = v6 * 0.000244140625f;
  const float v9 = v7 + 9.99999975e-06f;
  const float v10 = Rsqrt(v9);
#pragma unroll
  for (int j = 0; j < 2; ++j) {
    const Index r = begin + j * 64u + lane;
    const float v4 = x0[j] - v3;
    const float v13 = v4 * v10;
    const float v14 = v13 * x1;
    const float v15 = v14 + x2;
    const float v16 = Relu(v15);
    Store(out0 + (k + r * 16u), v16);
  }
#pragma unroll 1
  for (uint32 n = 0; n < team.left; ++n) {
    const Index part = team.PartLeft(n);
    const Index begin = part * 128u;
    const Index end = begin + 128u < 4096u ? begin + 128u : 4096u;
#pragma unroll 1
    for (Index first = begin + lane; first < end; first += 128u) {
      float x0[2] = {};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Index r = first + i * 64u;
        if (r < end) {
          x0[i] = Load(in0 + (k + r * 16u));
        }
      }
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const Index r = first + i * 64u;
        if (r < end) {
          const float v4 = x0[i] - v3;
          const float v13 = v4 * v10;
          const float v14 = v13 * x1;
          const float v15 = v14 + x2;
          const float v16 = Relu(v15);
          Store(out0 + (k + r * 16u), v16);
        }
      }
    }
  }
}

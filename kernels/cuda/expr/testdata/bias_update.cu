#include "cotan/expr.cuh"
#include "cotan/reduce.cuh"

using namespace cotan;

__device__ uint64 words[4160];

extern "C" __global__ void __launch_bounds__(512, 2) expr_columns(
    const float* in0,
    const float* in1,
    const float* in2,
    float* out0,
    float* out1,
    const ErrorRecord* record) {
  WaitForEarlierWork();
  COTAN_RETURN_ON_ERROR(record);
  using Index = uint32;
  const uint32 block = blockIdx.x;
  const Index lane = threadIdx.x / 32u;
  Team<63> team(words + block / 63u * 2080u);
  const Index k = static_cast<Index>(block / 63u) * 32u + threadIdx.x % 32u;
  const bool valid = k < 40u;
  const Index part = block % 63u;
  const Index begin = part * 144u;
  const Index end = !valid ? begin : begin + 144u < 9000u ? begin + 144u : 9000u;
  float t1 = Sum<float>::Start();
#pragma unroll 1
  for (Index first = begin + lane; first < end; first += 128u) {
    float x0[8] = {};
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const Index r = first + i * 16u;
      if (r < end) {
        x0[i] = Load(in0 + (k + r * 40u));
      }
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const Index r = first + i * 16u;
      if (r < end) {
        t1 = Sum<float>::Add(t1, x0[i]);
      }
    }
  }
  team.Meet();
  const float total1 = ReduceColumn<Sum<float>, 32, 16>(t1);
  if (lane == 0) {
    team.Publish(64u, part * 32u + threadIdx.x % 32u, total1);
  }
  if (!team.is_last) return;
  t1 = team.Collect<Sum<float>, 32, 16>(64u, lane, threadIdx.x % 32u);
  const float v1 = ReduceColumn<Sum<float>, 32, 16>(t1);
  if (valid && team.is_last && lane == 0) {
    const float x2 = LoadBefore(in2 + k);
    const float v4 = x2 * 0.899999976f;
    const float v5 = v4 + v1;
    const float v7 = v5 * 0.00999999978f;
    const float x1 = LoadBefore(in1 + k);
    const float v9 = x1 - v7;
    StoreAfter(out0 + k, v9);
    StoreAfter(out1 + k, v5);
  }
}

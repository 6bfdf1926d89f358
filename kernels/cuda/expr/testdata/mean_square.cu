#include "cotan/expr.cuh"
#include "cotan/reduce.cuh"

using namespace cotan;

__device__ uint64 words[257];

extern "C" __global__ void __launch_bounds__(256, 2) expr_rows(
    const float* in0,
    float* out0,
    const ErrorRecord* record) {
  WaitForEarlierWork();
  COTAN_RETURN_ON_ERROR(record);
  using Index = uint32;
  const uint32 block = blockIdx.x;
  const Index lane = threadIdx.x;
  Team<128> team(words + block / 128u * 257u);
  const Index k = static_cast<Index>(block / 128u);
  const Index part = block % 128u;
  const Index begin = part * 2048u;
  const Index end = begin + 2048u < 262144u ? begin + 2048u : 262144u;
  const bool aligned = IsAligned<16>(in0);
  float t3 = Sum<float>::Start();
#pragma unroll 1
  for (Index first = begin + lane * 4u; first < end; first += 2048u) {
    float x0[2][4] = {};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Index r = first + i * 1024u;
      if (r < end) {
        LoadPack(x0[i], in0 + r, aligned, 4);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const Index r = first + i * 1024u;
      if (r < end) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float v2 = x0[i][e] * x0[i][e];
          t3 = Sum<float>::Add(t3, v2);
        }
      }
    }
  }
  team.Meet();
  const float total3 = ReduceBlock<Sum<float>, 256>(t3);
  if (lane == 0) {
    team.Publish(129u, part, total3);
  }
  if (!team.is_last) return;
  t3 = team.Collect<Sum<float>, 1, 256>(129u, lane, 0);
  const float v3 = ReduceBlock<Sum<float>, 256>(t3);
  if (team.is_last && lane == 0) {
    const float v4 = v3 * 3.81469727e-06f;
    StoreAfter(out0, v4);
  }
}

#include "cotan/expr.cuh"
#include "cotan/reduce.cuh"

using namespace cotan;

__device__ uint32 counters[3];

extern "C" __global__ void __launch_bounds__(512) expr_columns(
    const float* in0,
    float* partial1,
    const float* in1,
    const float* in2,
    float* out0,
    float* out1,
    const ErrorRecord* record) {
  WaitForEarlierWork();
  COTAN_RETURN_ON_ERROR(record);
  using Index = uint32;
  const uint32 ticket = TakeItem(counters, 128u);
  if (ticket < 126u) {
    const uint32 item = ticket;
    uint32* const finished = counters + (1u + item / 63u);
    const Index lane = threadIdx.x / 32u;
    const Index part = item % 63u;
    const Index k = static_cast<Index>(item / 63u) * 32u + threadIdx.x % 32u;
    const bool valid = k < 40u;
    const Index begin = part * 144u;
    const Index end = !valid ? begin : begin + 144u < 9000u ? begin + 144u : 9000u;
    float t1 = Sum<float>::Start();
#pragma unroll 4
    for (Index r = begin + lane; r < end; r += 16u) {
      const float x0 = Load(in0 + (k + r * 40u));
      t1 = Sum<float>::Add(t1, x0);
    }
    const float total1 = ReduceColumn<Sum<float>, 32, 16>(t1);
    if (valid && lane == 0) partial1[part * 40u + k] = total1;
    FinishItem(finished, 64u);
  }
  else {
    const uint32 item = ticket - 126u;
    uint32* const finished = counters + (1u + item);
    WaitForItems(finished, 63u);
    const Index lane = threadIdx.x / 32u;
    const Index k = static_cast<Index>(item) * 32u + threadIdx.x % 32u;
    const bool valid = k < 40u;
    float t1 = Sum<float>::Start();
    for (Index s = lane; s < (valid ? 63u : 0); s += 16u) {
      t1 = Sum<float>::Add(t1, partial1[s * 40u + k]);
    }
    const float v1 = ReduceColumn<Sum<float>, 32, 16>(t1);
    if (valid && lane == 0) {
      const float x2 = Load(in2 + k);
      const float v4 = x2 * 0.899999976f;
      const float v5 = v4 + v1;
      const float v7 = v5 * 0.00999999978f;
      const float x1 = Load(in1 + k);
      const float v9 = x1 - v7;
      Store(out0 + k, v9);
      Store(out1 + k, v5);
    }
    FinishItem(finished, 64u);
  }
}

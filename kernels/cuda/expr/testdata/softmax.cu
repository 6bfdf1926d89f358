#include "cotan/expr.cuh"
#include "cotan/reduce.cuh"

using namespace cotan;

extern "C" __global__ void __launch_bounds__(256) expr_rows(
    const bfloat16* in0,
    bfloat16* out0,
    const ErrorRecord* record) {
  WaitForEarlierWork();
  COTAN_RETURN_ON_ERROR(record);
  using Index = uint32;
  const uint32 block = blockIdx.x;
  const Index lane = threadIdx.x;
  const Index k = static_cast<Index>(block);
  const Index end = 1000u;
  const bool aligned = IsAligned<8>(in0) &&
      IsAligned<8>(out0);
  float t2 = Max<float>::Start();
  float x0[1][4] = {};
#pragma unroll
  for (int j = 0; j < 1; ++j) {
    const Index r = (j * 256u + lane) * 4u;
    if (r < end) {
      LoadPack(x0[j], in0 + (k * 1000u + r), aligned, 4);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        t2 = Max<float>::Add(t2, x0[j][e]);
      }
    }
  }
  const float v2 = ReduceBlock<Max<float>, 256>(t2);
  float t5 = Sum<float>::Start();
  float v4[1][4] = {};
#pragma unroll
  for (int j = 0; j < 1; ++j) {
    const Index r = (j * 256u + lane) * 4u;
    if (r < end) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float v3 = x0[j][e] - v2;
        v4[j][e] = Exp(v3);
        t5 = Sum<float>::Add(t5, v4[j][e]);
      }
    }
  }
  const float v5 = ReduceBlock<Sum<float>, 256>(t5);
  const Divisor divisor5(v5);
#pragma unroll
  for (int j = 0; j < 1; ++j) {
    const Index r = (j * 256u + lane) * 4u;
    if (r < end) {
      float y0[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float v6 = Quotient(v4[j][e], divisor5);
        const float v7 = RoundToBfloat16(v6);
        y0[e] = v7;
      }
      StorePack(out0 + (k * 1000u + r), y0, aligned, 4);
    }
  }
}

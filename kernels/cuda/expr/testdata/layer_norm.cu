#include "cotan/expr.cuh"
#include "cotan/reduce.cuh"

using namespace cotan;

extern "C" __global__ void __launch_bounds__(256) expr_rows(
    const float* in0,
    const float* in1,
    const float* in2,
    float* out0,
    const ErrorRecord* record) {
  WaitForEarlierWork();
  COTAN_RETURN_ON_ERROR(record);
  using Index = uint32;
  const uint32 block = blockIdx.x;
  const Index lane = threadIdx.x;
  const bool aligned = IsAligned<16>(in0) &&
      IsAligned<16>(in1) &&
      IsAligned<16>(in2) &&
      IsAligned<16>(out0);
  float x1[1][4] = {};
  float x2[1][4] = {};
#pragma unroll
  for (int j = 0; j < 1; ++j) {
    const Index r = (j * 256u + lane) * 4u;
    if (r < 768u) {
      LoadPack(x1[j], in1 + r, aligned, 4);
      LoadPack(x2[j], in2 + r, aligned, 4);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
      }
    }
  }
#pragma unroll 1
  for (Index row = 0; row < 4u; ++row) {
    const Index k = static_cast<Index>(block) * 4u + row;
    const Index end = 768u;
    float t3 = Sum<float>::Start();
    float x0[1][4] = {};
#pragma unroll
    for (int j = 0; j < 1; ++j) {
      const Index r = (j * 256u + lane) * 4u;
      if (r < end) {
        LoadPack(x0[j], in0 + (k * 768u + r), aligned, 4);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          t3 = Sum<float>::Add(t3, x0[j][e]);
        }
      }
    }
    const float v3 = ReduceBlock<Sum<float>, 256>(t3);
    const float v4 = v3 * 0.00130208337f;
    float t7 = Sum<float>::Start();
#pragma unroll
    for (int j = 0; j < 1; ++j) {
      const Index r = (j * 256u + lane) * 4u;
      if (r < end) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float v5 = x0[j][e] - v4;
          const float v6 = v5 * v5;
          t7 = Sum<float>::Add(t7, v6);
        }
      }
    }
    const float v7 = ReduceBlock<Sum<float>, 256>(t7);
    const float v8 = v7 * 0.00130208337f;
    const float v10 = v8 + 9.99999975e-06f;
    const float v11 = Rsqrt(v10);
#pragma unroll
    for (int j = 0; j < 1; ++j) {
      const Index r = (j * 256u + lane) * 4u;
      if (r < end) {
        float y0[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const float v5 = x0[j][e] - v4;
          const float v14 = v5 * v11;
          const float v15 = v14 * x1[j][e];
          const float v18 = v15 + x2[j][e];
          y0[e] = v18;
        }
        StorePack(out0 + (k * 768u + r), y0, aligned, 4);
      }
    }
  }
}

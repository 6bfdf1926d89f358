#include "cotan/expr.cuh"

using namespace cotan;

extern "C" __global__ void __launch_bounds__(256) expr_pointwise(
    const float* in0,
    const float* in1,
    const float* in2,
    const float* in3,
    float* out0,
    float* out1,
    float* out2,
    const ErrorRecord* record) {
  WaitForEarlierWork();
  COTAN_RETURN_ON_ERROR(record);
  using Index = uint32;
  const uint32 block = blockIdx.x;
  constexpr Index elements = 1001u;
  const bool aligned = IsAligned<16>(in0) &&
      IsAligned<16>(in1) &&
      IsAligned<16>(in2) &&
      IsAligned<16>(in3) &&
      IsAligned<16>(out0) &&
      IsAligned<16>(out1) &&
      IsAligned<16>(out2);
  const Index r = (static_cast<Index>(block) * 256u + threadIdx.x) * 4u;
  if (r >= elements) return;
  const int count = CountBefore<4>(elements, r);
  float x3[4];
  LoadPack(x3, in3 + r, aligned, count);
  float x1[4];
  LoadPack(x1, in1 + r, aligned, count);
  float x2[4];
  LoadPack(x2, in2 + r, aligned, count);
  float x0[4];
  LoadPack(x0, in0 + r, aligned, count);
  float y0[4] = {};
  float y1[4] = {};
  float y2[4] = {};
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (e >= count) continue;
    const float v3 = x3[e] * 0.125f;
    const float v5 = x1[e] * 0.875f;
    const float v6 = v5 + v3;
    const float v7 = x3[e] * x3[e];
    const float v10 = v7 * 0.25f;
    const float v12 = x2[e] * 0.75f;
    const float v13 = v12 + v10;
    const float v15 = Sqrt(v13);
    const float v16 = v15 + 0.00100000005f;
    const float v17 = v6 / v16;
    const float v19 = v17 * 0.125f;
    const float v21 = x0[e] - v19;
    y0[e] = v21;
    y1[e] = v6;
    y2[e] = v13;
  }
  StorePack(out0 + r, y0, aligned, count);
  StorePack(out1 + r, y1, aligned, count);
  StorePack(out2 + r, y2, aligned, count);
}

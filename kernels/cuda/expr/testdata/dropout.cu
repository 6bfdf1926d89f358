#include "cotan/expr.cuh"
#include "cotan/philox.cuh"

using namespace cotan;

extern "C" __global__ void __launch_bounds__(256) expr_pointwise(
    const float* in0,
    const int64* in1,
    float* out0,
    bool* out1,
    const ErrorRecord* record) {
  WaitForEarlierWork();
  COTAN_RETURN_ON_ERROR(record);
  using Index = uint32;
  const uint32 block = blockIdx.x;
  constexpr Index elements = 3003u;
  const bool aligned = IsAligned<16>(in0) &&
      IsAligned<16>(out0) &&
      IsAligned<4>(out1);
  const Index r = (static_cast<Index>(block) * 256u + threadIdx.x) * 4u;
  if (r >= elements) return;
  const int count = CountBefore<4>(elements, r);
  const RandomStream random0(in1, 123ull, 1);
  float v0[4];
  random0.UniformPack(v0, r);
  float x0[4];
  LoadPack(x0, in0 + r, aligned, count);
  float y0[4] = {};
  bool y1[4] = {};
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    if (e >= count) continue;
    const bool v2 = v0[e] < 0.75f;
    const float v5 = x0[e] / 0.75f;
    const float v7 = v2 ? v5 : 0.0f;
    y0[e] = v7;
    y1[e] = v2;
  }
  StorePack(out0 + r, y0, aligned, count);
  StorePack(out1 + r, y1, aligned, count);
}

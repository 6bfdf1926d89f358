#include "cotan/expr.cuh"
#include "cotan/reduce.cuh"

using namespace cotan;

// expr_pointwise
__device__ __forceinline__ void Part0(uint32 block, uint32 elements, const float* in0, const float* in1, const float* in2, const float* in3, float* out0, float* out1, float* out2) {
  using Index = uint32;
  const bool aligned = IsAligned<16>(in0) &&
      IsAligned<16>(in1) &&
      IsAligned<16>(in2) &&
      IsAligned<16>(in3) &&
      IsAligned<16>(out0) &&
      IsAligned<16>(out1) &&
      IsAligned<16>(out2);
  const Index r = (static_cast<Index>(block) * 256u + threadIdx.x) * 4u;
  if (r >= elements) return;
  float x3[4];
  LoadPack(x3, in3 + r, aligned, 4);
  float x1[4];
  LoadPack(x1, in1 + r, aligned, 4);
  float x2[4];
  LoadPack(x2, in2 + r, aligned, 4);
  float x0[4];
  LoadPack(x0, in0 + r, aligned, 4);
  float y0[4];
  float y1[4];
  float y2[4];
#pragma unroll
  for (int e = 0; e < 4; ++e) {
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
  StorePack(out0 + r, y0, aligned, 4);
  StorePack(out1 + r, y1, aligned, 4);
  StorePack(out2 + r, y2, aligned, 4);
}

// expr_pointwise
__device__ __forceinline__ void Part1(uint32 block, uint32 elements, const float* in0, const float* in1, const float* in2, const float* in3, float* out0, float* out1, float* out2) {
  using Index = uint32;
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

// expr_rows
__device__ __forceinline__ void Part2(uint32 block, const float* in0, float* out0) {
  using Index = uint32;
  const Index lane = threadIdx.x % 16u;
  const Index k = static_cast<Index>(block) * 16u + threadIdx.x / 16u;
  const bool valid = k < 100u;
  const Index end = valid ? 64u : 0;
  const bool aligned = IsAligned<16>(in0) &&
      IsAligned<16>(out0);
  float t2 = Max<float>::Start();
  float x0[1][4] = {};
#pragma unroll
  for (int j = 0; j < 1; ++j) {
    const Index r = (j * 16u + lane) * 4u;
    if (r < end) {
      LoadPack(x0[j], in0 + (k * 64u + r), aligned, 4);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        t2 = Max<float>::Add(t2, x0[j][e]);
      }
    }
  }
  const float v2 = ReduceLanes<Max<float>, 16>(t2);
  float t5 = Sum<float>::Start();
  float v4[1][4] = {};
#pragma unroll
  for (int j = 0; j < 1; ++j) {
    const Index r = (j * 16u + lane) * 4u;
    if (r < end) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float v3 = x0[j][e] - v2;
        v4[j][e] = Exp(v3);
        t5 = Sum<float>::Add(t5, v4[j][e]);
      }
    }
  }
  const float v5 = ReduceLanes<Sum<float>, 16>(t5);
  const Divisor divisor5(v5);
#pragma unroll
  for (int j = 0; j < 1; ++j) {
    const Index r = (j * 16u + lane) * 4u;
    if (r < end) {
      float y0[4];
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float v6 = Quotient(v4[j][e], divisor5);
        y0[e] = v6;
      }
      StorePack(out0 + (k * 64u + r), y0, aligned, 4);
    }
  }
}

extern "C" __global__ void __launch_bounds__(256) expr_group(
    const float* p0,
    const float* p1,
    const float* p2,
    const float* p3,
    float* p4,
    float* p5,
    float* p6,
    const float* p7,
    const float* p8,
    const float* p9,
    const float* p10,
    float* p11,
    float* p12,
    float* p13,
    const float* p14,
    float* p15,
    const ErrorRecord* record) {
  WaitForEarlierWork();
  const uint32 block = blockIdx.x;
  if (block < 1u) {
    COTAN_RETURN_ON_ERROR(record);
    uint32 first;
    uint32 elements;
    const float* in0;
    const float* in1;
    const float* in2;
    const float* in3;
    float* out0;
    float* out1;
    float* out2;
    first = 0u;
    elements = 1000u;
    in0 = p0;
    in1 = p1;
    in2 = p2;
    in3 = p3;
    out0 = p4;
    out1 = p5;
    out2 = p6;
    Part0(block - first, elements, in0, in1, in2, in3, out0, out1, out2);
  }
  else {
    if (block < 2u) {
      COTAN_RETURN_ON_ERROR(record);
      uint32 first;
      uint32 elements;
      const float* in0;
      const float* in1;
      const float* in2;
      const float* in3;
      float* out0;
      float* out1;
      float* out2;
      first = 1u;
      elements = 1001u;
      in0 = p7;
      in1 = p8;
      in2 = p9;
      in3 = p10;
      out0 = p11;
      out1 = p12;
      out2 = p13;
      Part1(block - first, elements, in0, in1, in2, in3, out0, out1, out2);
    }
    else {
      COTAN_RETURN_ON_ERROR(record);
      uint32 first;
      const float* in0;
      float* out0;
      first = 2u;
      in0 = p14;
      out0 = p15;
      Part2(block - first, in0, out0);
    }
  }
}

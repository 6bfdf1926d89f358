#include "cotan/expr.cuh"
#include "cotan/reduce.cuh"

using namespace cotan;

extern "C" __global__ void __launch_bounds__(1024) expr_columns_part(
    const float* in0,
    float* partial1) {
  using Index = uint32;
  const uint32 block = blockIdx.x;
  const Index part = block % 11u;
  const Index lane = threadIdx.x / 32u;
  const Index k = static_cast<Index>(block / 11u) * 32u + threadIdx.x % 32u;
  const bool valid = k < 40u;
  const Index begin = part * 288u;
  const Index end = !valid ? begin : begin + 288u < 3000u ? begin + 288u : 3000u;
  float t1 = Sum<float>::Start();
#pragma unroll 4
  for (Index r = begin + lane; r < end; r += 32u) {
    const float x0 = Load(in0 + (k + r * 40u));
    t1 = Sum<float>::Add(t1, x0);
  }
  const float total1 = ReduceColumn<Sum<float>, 32, 32>(t1);
  if (valid && lane == 0) partial1[part * 40u + k] = total1;
}
#include "cotan/expr.cuh"
#include "cotan/reduce.cuh"

using namespace cotan;

extern "C" __global__ void __launch_bounds__(1024) expr_columns_end(
    const float* in1,
    const float* in2,
    float* out0,
    float* out1,
    const float* partial1,
    const ErrorRecord* record) {
  COTAN_RETURN_ON_ERROR(record);
  using Index = uint32;
  const uint32 block = blockIdx.x;
  const Index lane = threadIdx.x / 32u;
  const Index k = static_cast<Index>(block) * 32u + threadIdx.x % 32u;
  const bool valid = k < 40u;
  float t1 = Sum<float>::Start();
  for (Index s = lane; s < (valid ? 11u : 0); s += 32u) {
    t1 = Sum<float>::Add(t1, partial1[s * 40u + k]);
  }
  const float v1 = ReduceColumn<Sum<float>, 32, 32>(t1);
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
}

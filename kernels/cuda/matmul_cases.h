// SPDX-License-Identifier: Apache-2.0

// Matmul requests and their expected results, for tests.
#ifndef COTAN_KERNELS_CUDA_MATMUL_CASES_H_
#define COTAN_KERNELS_CUDA_MATMUL_CASES_H_

#include <cstdint>
#include <vector>

#include "base/layout.h"
#include "kernels/cuda/op_request.h"

namespace cotan::cuda {

inline StridedLayout Contiguous(const DimVector& sizes) {
  return StridedLayout{.sizes = sizes, .strides = ContiguousStrides(sizes)};
}

inline OpRequest MatmulRequest(const std::vector<StridedLayout>& inputs, const StridedLayout& output) {
  OpRequest request;
  request.op.mutable_matmul();
  for (const StridedLayout& layout : inputs) request.inputs.push_back({DType::kFloat32, layout});
  request.outputs.push_back({DType::kFloat32, output});
  return request;
}

// Returns small integers, so that sums are exact, for the whole storage extent of `layout`, gaps included.
inline std::vector<float> TestValues(const StridedLayout& layout, int seed) {
  std::vector<float> values(StorageExtent(layout));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 7 + seed * 5) % 11) - 5;
  return values;
}

// Returns the element of `data` at output index `index`, by PyTorch's rule of broadcasting.
inline float ElementAt(const std::vector<float>& data, const StridedLayout& layout, const DimVector& index) {
  int64_t offset = 0;
  for (int d = 0; d < layout.rank(); ++d) {
    const int64_t i = index[index.size() - layout.rank() + d];
    offset += (layout.sizes[d] == 1 ? 0 : i) * layout.strides[d];
  }
  return data[offset];
}

// Returns the expected memory of the output; elements in the gaps of its layout are 0.
inline std::vector<float> ExpectedMatmul(const OpRequest& request, const std::vector<std::vector<float>>& inputs) {
  const StridedLayout& output = request.outputs[0].layout;
  const int rank = output.rank();
  const int64_t k_size = request.inputs[0].layout.sizes.back();
  std::vector<float> result(StorageExtent(output));
  DimVector index(rank, 0);
  for (int64_t i = 0; i < NumElements(output.sizes); ++i) {
    int64_t rest = i, offset = 0;
    for (int d = rank - 1; d >= 0; --d) {
      index[d] = rest % output.sizes[d];
      rest /= output.sizes[d];
      offset += index[d] * output.strides[d];
    }
    float sum = inputs.size() == 3 ? ElementAt(inputs[2], request.inputs[2].layout, index) : 0;
    for (int64_t k = 0; k < k_size; ++k) {
      DimVector lhs = index, rhs = index;
      lhs[rank - 1] = k;
      rhs[rank - 2] = k;
      sum += ElementAt(inputs[0], request.inputs[0].layout, lhs) * ElementAt(inputs[1], request.inputs[1].layout, rhs);
    }
    result[offset] = sum;
  }
  return result;
}

struct MatmulCase {
  const char* name;
  std::vector<StridedLayout> inputs;
  StridedLayout output;
};

// Returns the cases of matmul_plan_test (on the host) and register_cuda_test (on the GPU).
inline std::vector<MatmulCase> MatmulCases() {
  const auto transposed = [](int64_t rows, int64_t columns) {
    return StridedLayout{.sizes = {rows, columns}, .strides = {1, rows}};
  };
  return {
      {"RowMajor", {Contiguous({3, 5}), Contiguous({5, 4})}, Contiguous({3, 4})},
      {"LhsTransposed", {transposed(3, 5), Contiguous({5, 4})}, Contiguous({3, 4})},
      {"RhsTransposed", {Contiguous({3, 5}), transposed(5, 4)}, Contiguous({3, 4})},
      {"BothTransposed", {transposed(3, 5), transposed(5, 4)}, Contiguous({3, 4})},
      {"PaddedRows",
       {StridedLayout{.sizes = {3, 5}, .strides = {8, 1}}, StridedLayout{.sizes = {5, 4}, .strides = {6, 1}}},
       StridedLayout{.sizes = {3, 4}, .strides = {7, 1}}},
      {"OneRow", {Contiguous({1, 5}), Contiguous({5, 4})}, Contiguous({1, 4})},
      {"OneColumn", {Contiguous({3, 5}), Contiguous({5, 1})}, Contiguous({3, 1})},
      {"OneTerm", {Contiguous({3, 1}), Contiguous({1, 4})}, Contiguous({3, 4})},
      {"ColumnOfALargerMatrix",
       {Contiguous({3, 5}), StridedLayout{.sizes = {5, 1}, .strides = {9, 1}}},
       Contiguous({3, 1})},
      {"Bias", {Contiguous({3, 5}), transposed(5, 4), Contiguous({4})}, Contiguous({3, 4})},
      {"Matrix", {Contiguous({3, 5}), Contiguous({5, 4}), Contiguous({3, 4})}, Contiguous({3, 4})},
      {"Batch", {Contiguous({2, 3, 5}), Contiguous({2, 5, 4})}, Contiguous({2, 3, 4})},
      {"BatchWithBias", {Contiguous({2, 3, 5}), Contiguous({2, 5, 4}), Contiguous({4})}, Contiguous({2, 3, 4})},
      {"BatchWithABiasEach",
       {Contiguous({2, 3, 5}), Contiguous({2, 5, 4}), Contiguous({2, 1, 4})},
       Contiguous({2, 3, 4})},
      {"BatchWithOneMatrix", {Contiguous({2, 3, 5}), Contiguous({2, 5, 4}), Contiguous({3, 4})}, Contiguous({2, 3, 4})},
      {"RhsSharedByTheBatch", {Contiguous({2, 3, 5}), Contiguous({5, 4})}, Contiguous({2, 3, 4})},
      {"TwoBatchDimensions", {Contiguous({2, 6, 3, 5}), Contiguous({2, 6, 5, 4})}, Contiguous({2, 6, 3, 4})},
      {"HeadsInTheMiddle",
       {StridedLayout{.sizes = {2, 6, 3, 5}, .strides = {90, 5, 30, 1}},
        StridedLayout{.sizes = {2, 6, 5, 3}, .strides = {90, 5, 1, 30}}},
       Contiguous({2, 6, 3, 3})},
      {"BroadcastOnBothSides", {Contiguous({2, 1, 3, 5}), Contiguous({1, 6, 5, 4})}, Contiguous({2, 6, 3, 4})},
  };
}

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_MATMUL_CASES_H_

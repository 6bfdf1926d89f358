// SPDX-License-Identifier: Apache-2.0

// Cases of products, convolutions, pools, attention and recurrent layers.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/api/op_check.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/random_case.h"
#include "testing/cuda/kernel_cases.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using serialization::Op;
using serialization::Recurrent;

constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kProducts[] = {DType::kInt32,    DType::kInt64,   DType::kFloat16,
                               DType::kBFloat16, DType::kFloat32, DType::kFloat64};

// Returns the outputs of the reference kernel, row-major. An error of the kernel is reported by whoever runs the case.
std::vector<HostTensor> ReferenceOutputs(KernelFactory factory, const KernelCase& c) {
  std::vector<HostTensor> inputs = c.inputs, outputs;
  std::vector<HostTensor*> in, out;
  for (const TensorSpec& spec : c.outputs) outputs.emplace_back(spec.dtype, spec.layout.sizes);
  for (HostTensor& tensor : inputs) in.push_back(&tensor);
  for (HostTensor& tensor : outputs) out.push_back(&tensor);
  RunOp(factory, c.op, in, out).IgnoreError();
  return outputs;
}

Op MatmulOp() {
  Op op;
  op.mutable_matmul();
  return op;
}

void AddProduct(KernelCaseList& list, DType dtype, absl::string_view what, const StridedLayout& a,
                const StridedLayout& b, const StridedLayout& output, const DimVector& bias = {}) {
  const double bound = IsFloatingPoint(dtype) ? 1 : 50;
  list.Add(absl::StrCat("matmul/", DTypeName(dtype), "/", what), MatmulOp(), ProductTolerance(dtype),
           !IsFloatingPoint(dtype));
  list.Input(dtype, a, -bound, bound);
  list.Input(dtype, b, -bound, bound);
  if (!bias.empty()) list.Input(dtype, DenseLayout(bias), -bound, bound);
  list.Output(dtype, output);
}

// relu(a @ b + bias) and the product as a second output.
void AddProductWithEpilogue(KernelCaseList& list, DType dtype) {
  constexpr int64_t kM = 48, kK = 40, kN = 64;
  ExprBuilder b({kM, kN});
  const int product = b.Input(0, dtype);
  const int sum = b.Add(product, b.Input(1, dtype));
  b.Output(b.Apply(serialization::FN_RELU, {sum}));
  b.Output(sum);
  Op op;
  *op.mutable_matmul()->mutable_epilogue() = b.Build().expr();
  list.Add(absl::StrCat("matmul/", DTypeName(dtype), "/epilogue"), op, ProductTolerance(dtype), false);
  list.Input(dtype, DenseLayout({kM, kK}));
  list.Input(dtype, DenseLayout({kK, kN}));
  list.Input(dtype, DenseLayout({kN}));
  list.Output(dtype, DenseLayout({kM, kN}));
  list.Output(dtype, DenseLayout({kM, kN}));
}

struct ConvolutionShape {
  std::string name;
  DimVector input, weight;
  int64_t stride = 1, padding = 0, dilation = 1, groups = 1, output_padding = 0;
  bool transposed = false, channels_last = false, has_bias = false;
};

StridedLayout ImageLayout(const DimVector& sizes, bool channels_last) {
  DimVector order;
  if (channels_last) {
    order.push_back(0);
    for (size_t d = 2; d < sizes.size(); ++d) order.push_back(static_cast<int64_t>(d));
    order.push_back(1);
  }
  return DenseLayout(sizes, order);
}

void AddConvolution(KernelCaseList& list, DType dtype, const ConvolutionShape& shape) {
  serialization::Convolution attributes;
  attributes.set_groups(shape.groups);
  attributes.set_transposed(shape.transposed);
  DimVector output = {shape.input[0], shape.transposed ? shape.weight[1] * shape.groups : shape.weight[0]};
  for (size_t d = 2; d < shape.input.size(); ++d) {
    attributes.add_stride(shape.stride);
    attributes.add_padding(shape.padding);
    attributes.add_dilation(shape.dilation);
    if (shape.transposed) attributes.add_output_padding(shape.output_padding);
    output.push_back(ConvolutionOutputSize(attributes, static_cast<int>(d) - 2, shape.input[d], shape.weight[d]));
  }
  const StridedLayout x = ImageLayout(shape.input, shape.channels_last);
  const StridedLayout w = ImageLayout(shape.weight, shape.channels_last);
  const StridedLayout y = ImageLayout(output, shape.channels_last);
  const std::string suffix = absl::StrCat("/", DTypeName(dtype), "/", shape.name);
  const auto add = [&](absl::string_view kind, const Op& op, const StridedLayout& a, const StridedLayout& b,
                       const StridedLayout& result) {
    list.Add(absl::StrCat(kind, suffix), op, ProductTolerance(dtype), false);
    list.Input(dtype, a);
    list.Input(dtype, b);
    if (shape.has_bias && op.has_convolution()) list.Input(dtype, DenseLayout({output[1]}));
    list.Output(dtype, result);
  };
  Op forward, input_gradient, weight_gradient;
  *forward.mutable_convolution() = attributes;
  *input_gradient.mutable_convolution_backward_input()->mutable_forward() = attributes;
  *weight_gradient.mutable_convolution_backward_weight()->mutable_forward() = attributes;
  add("convolution", forward, x, w, y);
  add("convolution_backward_input", input_gradient, y, w, x);
  add("convolution_backward_weight", weight_gradient, y, x, w);
}

struct PoolShape {
  std::string name;
  DimVector planes, image;
  int64_t kernel, stride, padding, dilation;
  bool flag = false;  // ceil_mode, count_include_pad
  bool channels_last = false;
};

void AddPool(KernelCaseList& list, DType dtype, const PoolShape& shape, bool is_max) {
  serialization::Pool attributes;
  attributes.set_ceil_mode(shape.flag);
  attributes.set_count_include_pad(shape.flag);
  DimVector input = shape.planes, output = shape.planes;
  for (size_t d = 0; d < shape.image.size(); ++d) {
    attributes.add_kernel(shape.kernel);
    attributes.add_stride(shape.stride);
    attributes.add_padding(shape.padding);
    attributes.add_dilation(is_max ? shape.dilation : 1);
    input.push_back(shape.image[d]);
    output.push_back(PoolOutputSize(attributes, static_cast<int>(d), shape.image[d]));
  }
  const StridedLayout x = ImageLayout(input, shape.channels_last), y = ImageLayout(output, shape.channels_last);
  const std::string suffix = absl::StrCat("/", DTypeName(dtype), "/", shape.name);
  const double tolerance = ByteSize(dtype) == 2 ? kRounding : kReduction;
  Op forward, backward;
  if (!is_max) {
    *forward.mutable_avg_pool() = attributes;
    *backward.mutable_avg_pool_backward() = attributes;
    list.Add("avg_pool" + suffix, forward, tolerance);
    list.Input(dtype, x);
    list.Output(dtype, y);
    list.Add("avg_pool_backward" + suffix, backward, tolerance);
    list.Input(dtype, y);
    list.Output(dtype, x);
    return;
  }
  *forward.mutable_max_pool() = attributes;
  *backward.mutable_max_pool_backward() = attributes;
  for (const DType index_dtype : {DType::kInt64, DType::kInt32}) {
    const std::string name = index_dtype == DType::kInt64 ? suffix : suffix + "/i32";
    const KernelCase& c = list.Add("max_pool" + name, forward, kExact);
    list.Input(dtype, x);
    list.Output(dtype, y);
    list.Output(index_dtype, y);
    HostTensor index(index_dtype, y);
    index.SetValues(ReferenceOutputs(reference::MakeMaxPool, c)[1].Values());
    list.Add("max_pool_backward" + name, backward, tolerance);
    list.Input(dtype, y);
    list.Input(std::move(index));
    list.Output(dtype, x);
  }
}

struct AttentionShape {
  std::string name;
  int64_t batch, heads, queries, keys, size, value_size;
  bool is_causal = false, has_bias = false, heads_inside = false;
};

void AddAttention(KernelCaseList& list, DType dtype, const AttentionShape& s) {
  const auto layout = [&](int64_t length, int64_t size) {
    return DenseLayout({s.batch, s.heads, length, size}, s.heads_inside ? DimVector{0, 2, 1, 3} : DimVector{});
  };
  const DType logsumexp = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const double tolerance = ByteSize(dtype) == 2 ? kTranscendental : kMatmul;
  Op forward, backward;
  forward.mutable_attention()->set_is_causal(s.is_causal);
  forward.mutable_attention()->set_scale(1 / std::sqrt(static_cast<double>(s.size)));
  *backward.mutable_attention_backward() = forward.attention();
  const std::string suffix = absl::StrCat("/", DTypeName(dtype), "/", s.name);
  const KernelCase& c = list.Add("attention" + suffix, forward, tolerance, false);
  list.Input(dtype, layout(s.queries, s.size));
  list.Input(dtype, layout(s.keys, s.size));
  list.Input(dtype, layout(s.keys, s.value_size));
  if (s.has_bias) list.Input(dtype, DenseLayout({s.batch, s.heads, s.queries, s.keys}));
  list.Output(dtype, layout(s.queries, s.value_size));
  list.Output(logsumexp, DenseLayout({s.batch, s.heads, s.queries}));
  std::vector<HostTensor> saved = ReferenceOutputs(reference::MakeAttention, c);
  const std::vector<HostTensor> inputs = c.inputs;
  list.Add("attention_backward" + suffix, backward, tolerance, false);
  list.Input(dtype, layout(s.queries, s.value_size));
  for (size_t i = 0; i < 3; ++i) list.Input(inputs[i]);
  for (HostTensor& tensor : saved) list.Input(std::move(tensor));
  if (s.has_bias) list.Input(inputs[3]);
  list.Output(dtype, layout(s.queries, s.size));
  list.Output(dtype, layout(s.keys, s.size));
  list.Output(dtype, layout(s.keys, s.value_size));
}

void AddRecurrent(KernelCaseList& list, DType dtype, Recurrent::Cell cell, bool reverse, int64_t steps, int64_t batch,
                  int64_t hidden) {
  const bool is_lstm = cell == Recurrent::LSTM, is_gru = cell == Recurrent::GRU;
  const int64_t gates = (is_lstm ? 4 : is_gru ? 3 : 1) * hidden;
  const auto operand = [&](const DimVector& sizes, double range = 1) {
    list.Input(dtype, DenseLayout(sizes), -range, range);
  };
  Op forward, backward;
  forward.mutable_recurrent()->set_cell(cell);
  forward.mutable_recurrent()->set_reverse(reverse);
  *backward.mutable_recurrent_backward() = forward.recurrent();
  const std::string suffix = absl::StrCat("/", DTypeName(dtype), "/", Recurrent::Cell_Name(cell),
                                          reverse ? "_reverse_" : "_", steps, "x", batch, "x", hidden);
  const KernelCase& c = list.Add("recurrent" + suffix, forward, kMatmul, false);
  operand({steps, batch, gates});
  operand({gates, hidden}, 1.5 / std::sqrt(static_cast<double>(hidden)));
  operand({batch, hidden});
  if (is_lstm) operand({batch, hidden});
  if (is_gru) operand({gates});
  list.Output(dtype, DenseLayout({steps, batch, hidden}));
  if (is_lstm) list.Output(dtype, DenseLayout({steps, batch, hidden}));
  if (is_lstm || is_gru) list.Output(dtype, DenseLayout({steps, batch, 4 * hidden}));
  const std::vector<HostTensor> saved = ReferenceOutputs(reference::MakeRecurrent, c), inputs = c.inputs;
  list.Add("recurrent_backward" + suffix, backward, kMatmul, false);
  operand({steps, batch, hidden});
  list.Input(saved[0]);
  list.Input(inputs[1]);
  list.Input(inputs[2]);
  if (is_lstm || is_gru) list.Input(saved.back());
  if (is_lstm) {
    list.Input(saved[1]);
    list.Input(inputs[3]);
    operand({batch, hidden});
  }
  list.Output(dtype, DenseLayout({steps, batch, is_gru ? 4 * hidden : gates}));
  list.Output(dtype, DenseLayout({batch, hidden}));
  if (is_lstm) list.Output(dtype, DenseLayout({batch, hidden}));
}

}  // namespace

void AddProductCases(KernelCaseList& list) {
  const DimVector columns = {1, 0};
  for (const DType dtype : kProducts) {
    AddProduct(list, dtype, "odd", DenseLayout({33, 17}), DenseLayout({17, 29}), DenseLayout({33, 29}));
    AddProduct(list, dtype, "aligned", DenseLayout({64, 96}), DenseLayout({96, 48}), DenseLayout({64, 48}));
    AddProduct(list, dtype, "transposed", DenseLayout({24, 40}, columns), DenseLayout({40, 16}, columns),
               DenseLayout({24, 16}, columns));
    AddProduct(list, dtype, "bias", DenseLayout({20, 64}), DenseLayout({64, 32}), DenseLayout({20, 32}), {32});
    AddProduct(list, dtype, "batch", DenseLayout({2, 3, 10, 16}, {0, 2, 1, 3}), DenseLayout({1, 3, 16, 12}),
               DenseLayout({2, 3, 10, 12}));
    AddProduct(list, dtype, "vector", DenseLayout({1, 300}), DenseLayout({300, 1}), DenseLayout({1, 1}));
    AddProduct(list, dtype, "empty_sum", DenseLayout({5, 0}), DenseLayout({0, 6}), DenseLayout({5, 6}));
  }
  for (const DType dtype : kFloats) AddProductWithEpilogue(list, dtype);
}

void AddConvolutionCases(KernelCaseList& list) {
  for (const DType dtype : kFloats) {
    AddConvolution(list, dtype,
                   {.name = "3x3", .input = {2, 8, 9, 7}, .weight = {16, 8, 3, 3}, .padding = 1, .has_bias = true});
    AddConvolution(
        list, dtype,
        {.name = "3x3_nhwc", .input = {2, 16, 8, 8}, .weight = {8, 16, 3, 3}, .padding = 1, .channels_last = true});
    AddConvolution(list, dtype,
                   {.name = "stride2", .input = {2, 3, 11, 10}, .weight = {8, 3, 3, 3}, .stride = 2, .padding = 1});
    AddConvolution(list, dtype, {.name = "1x1", .input = {2, 16, 6, 6}, .weight = {32, 16, 1, 1}});
    AddConvolution(list, dtype, {.name = "depthwise", .input = {2, 8, 9, 9}, .weight = {8, 1, 3, 3}, .groups = 8});
    AddConvolution(list, dtype, {.name = "dilated_1d", .input = {3, 4, 30}, .weight = {6, 4, 3}, .dilation = 2});
    AddConvolution(list, dtype,
                   {.name = "transposed",
                    .input = {2, 8, 5, 5},
                    .weight = {8, 4, 3, 3},
                    .stride = 2,
                    .padding = 1,
                    .output_padding = 1,
                    .transposed = true});
  }
}

void AddPoolCases(KernelCaseList& list) {
  for (const DType dtype : kFloats) {
    for (const bool is_max : {true, false}) {
      AddPool(list, dtype, {"2x2", {2, 5}, {12, 10}, 2, 2, 0, 1}, is_max);
      AddPool(list, dtype, {"3x3_nhwc", {2, 8}, {9, 9}, 3, 2, 1, 1, false, true}, is_max);
      AddPool(list, dtype, {"ceil", {3}, {7, 6, 5}, 3, 2, 1, 2, true}, is_max);
    }
  }
}

void AddAttentionCases(KernelCaseList& list) {
  for (const DType dtype : kFloats) {
    AddAttention(list, dtype, {"plain", 2, 2, 20, 33, 16, 16});
    AddAttention(list, dtype, {"causal", 2, 4, 64, 64, 32, 32, true, false, true});
    AddAttention(list, dtype, {"bias", 1, 3, 17, 19, 12, 9, false, true});
  }
}

void AddRecurrentCases(KernelCaseList& list) {
  for (const DType dtype : kFloats) {
    for (const Recurrent::Cell cell : {Recurrent::RNN_TANH, Recurrent::RNN_RELU, Recurrent::LSTM, Recurrent::GRU}) {
      AddRecurrent(list, dtype, cell, false, 5, 3, 20);
    }
    AddRecurrent(list, dtype, Recurrent::LSTM, true, 4, 2, 64);
    AddRecurrent(list, dtype, Recurrent::GRU, true, 4, 2, 64);
  }
}

}  // namespace cotan::testing

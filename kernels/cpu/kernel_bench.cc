// SPDX-License-Identifier: Apache-2.0

// Measures GFLOP/s of matmul, convolution, attention and recurrent kernels at the sizes of the benchmark's
// models (mlp, cnn, gpt, resnet, lstm, gru), of convolutions at those of image models with 224 x 224 pixels, of
// products of BERT and ViT and of few rows, of products with weights of 32, 8 and 4 bits at those of GPT-2 small, and
// the time of decompositions, with 1 and 2 threads each. //testing/bench:decompositions compares the latter with
// LAPACK.
//
//   bazel run //kernels/cpu:kernel_bench -- --benchmark_filter=gpt
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "benchmark/benchmark.h"
#include "kernels/api/device.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/quantized_case.h"
#include "kernels/testing/random_case.h"

namespace cotan {
namespace {

using serialization::Op;
using testing::DenseLayout;
using testing::HostTensor;
using testing::RandomTensor;

struct OpCase {
  std::string name;
  Op op;
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> outputs;
  double flops = 0;
  // The right operand of a matmul, if an expression computes it: it is not in `inputs`.
  std::optional<testing::QuantizedMatrix> right = std::nullopt;
  StridedLayout right_layout = {};  // as the product reads it
};

HostTensor Tensor(StridedLayout layout, DType dtype = DType::kFloat32) {
  std::mt19937_64 random(1);
  return RandomTensor(dtype, std::move(layout), random, 0, 2);
}

std::string SuffixOf(DType dtype) { return dtype == DType::kFloat32 ? "" : "/bf16"; }

StridedLayout ChannelsLast(const DimVector& sizes) { return DenseLayout(sizes, {0, 2, 3, 1}); }

absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const OpCase& c, int threads) {
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  for (const HostTensor& tensor : c.inputs) inputs.push_back(tensor.spec());
  for (const HostTensor& tensor : c.outputs) outputs.push_back(tensor.spec());
  const KernelRegistry& registry = CpuKernels();
  if (!c.right) {
    COTAN_ASSIGN_OR_RETURN(const KernelFactory factory,
                           registry.Find(DeviceType::kCpu, c.op.kind_case(), c.outputs[0].dtype()));
    return factory({c.op, inputs, outputs, {}, threads, nullptr});
  }
  inputs.push_back({DType::kFloat32, c.right_layout});
  std::vector<TensorSpec> right_inputs;
  for (const HostTensor& input : c.right->inputs) right_inputs.push_back(input.spec());
  const TensorSpec value = {DType::kFloat32, DenseLayout(c.right->sizes)};
  const KernelRequest product = {c.op, inputs, outputs, {}, threads, nullptr};
  const KernelRequest expression = {c.right->op, right_inputs, {&value, 1}, {}, threads, nullptr};
  return registry.FindComputedOperands(DeviceType::kCpu)->make({product, expression});
}

void RunCase(benchmark::State& state, OpCase& c, int threads) {
  std::vector<void*> inputs;
  std::vector<void*> outputs;
  for (HostTensor& tensor : c.inputs) inputs.push_back(tensor.data());
  for (HostTensor& tensor : c.outputs) outputs.push_back(tensor.data());
  if (c.right) {
    for (HostTensor& input : c.right->inputs) inputs.push_back(input.data());
  }
  const auto kernel = MakeKernel(c, threads);
  if (!kernel.ok()) return state.SkipWithError(kernel.status().ToString().c_str());
  const size_t bytes = std::max<size_t>(64, (*kernel)->scratch_bytes());
  const auto scratch = HostDevice().Allocate(bytes);
  if (!scratch.ok()) return state.SkipWithError("no memory");
  for ([[maybe_unused]] auto _ : state) {
    const absl::Status status = (*kernel)->Run({inputs.data(), outputs.data(), *scratch});
    if (!status.ok()) {
      state.SkipWithError(status.ToString().c_str());
      break;
    }
  }
  HostDevice().Free(*scratch, bytes);
  if (c.flops > 0) {
    state.counters["GF/s"] = benchmark::Counter(c.flops * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  }
}

// a is stored by columns if `a_columns`, b if `b_columns`.
OpCase Matmul(std::string name, int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns,
              DType dtype = DType::kFloat32) {
  const DimVector columns = {1, 0};
  OpCase c;
  c.name = std::move(name);
  c.op.mutable_matmul();
  c.inputs.push_back(Tensor(DenseLayout({m, k}, a_columns ? columns : DimVector{}), dtype));
  c.inputs.push_back(Tensor(DenseLayout({k, n}, b_columns ? columns : DimVector{}), dtype));
  c.outputs.push_back(Tensor(DenseLayout({m, n}), dtype));
  c.flops = 2.0 * static_cast<double>(m * n * k);
  return c;
}

// Adds the three products of a linear layer on `rows` rows, in f32 and in bf16.
void AddLinear(const std::string& name, int64_t rows, int64_t in, int64_t out, std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::string prefix = name + SuffixOf(dtype);
    cases.push_back(Matmul(prefix + "/forward", rows, in, out, false, true, dtype));
    cases.push_back(Matmul(prefix + "/grad_input", rows, out, in, false, false, dtype));
    cases.push_back(Matmul(prefix + "/grad_weight", out, rows, in, true, false, dtype));
  }
}

// Adds the products of an attention that is not fused, for each of `batch` heads, and their gradients, in f32 and in
// bf16.
void AddHeads(const std::string& name, int64_t batch, int64_t length, int64_t size, std::vector<OpCase>& cases) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::string prefix = name + SuffixOf(dtype);
    const auto add = [&](const char* product, int64_t m, int64_t k, int64_t n, bool a_columns, bool b_columns) {
      OpCase& c = cases.emplace_back(Matmul(prefix + product, m, k, n, a_columns, b_columns, dtype));
      const DimVector columns = {0, 2, 1};
      c.inputs = {Tensor(DenseLayout({batch, m, k}, a_columns ? columns : DimVector{}), dtype),
                  Tensor(DenseLayout({batch, k, n}, b_columns ? columns : DimVector{}), dtype)};
      c.outputs = {Tensor(DenseLayout({batch, m, n}), dtype)};
      c.flops *= static_cast<double>(batch);
    };
    add("/scores", length, size, length, false, true);
    add("/values", length, length, size, false, false);
    add("/grad_keys", length, length, size, true, false);
  }
}

// Adds the products of a frozen linear layer with a weight in 32, 8 and 4 bits, the last in groups of 32.
void AddFrozenLinear(const std::string& name, int64_t rows, int64_t in, int64_t out, std::vector<OpCase>& cases) {
  std::mt19937_64 random(1);
  const OpCase forward = Matmul(name + "/forward", rows, in, out, false, true);
  const OpCase grad_input = Matmul(name + "/grad_input", rows, out, in, false, false);
  for (const OpCase& product : {forward, grad_input}) {
    cases.push_back(product);
    cases.back().name += "/f32";
    for (const int bits : {8, 4}) {
      OpCase& c = cases.emplace_back(product);
      c.name += "/int" + std::to_string(bits);
      c.right = testing::MakeQuantizedMatrix(out, in, bits, bits == 8 ? in : 32, random);
      c.right_layout = c.inputs[1].layout();
      c.inputs.pop_back();
    }
  }
}

// Adds the three products of a convolution of square images with side `side`. The padding is half a kernel, or none if
// the kernel and the stride cut an image into patches.
void AddConvolution(const std::string& name, int64_t batch, int64_t in, int64_t side, int64_t out, int64_t kernel,
                    int64_t stride, std::vector<OpCase>& cases, int64_t groups = 1, int64_t dilation = 1) {
  serialization::Convolution op;
  for (int d = 0; d < 2; ++d) {
    op.add_stride(stride);
    op.add_padding(kernel == stride ? 0 : kernel / 2 * dilation);
    op.add_dilation(dilation);
  }
  op.set_groups(static_cast<int32_t>(groups));
  const int64_t result = ConvolutionOutputSize(op, 0, side, kernel);
  const HostTensor x = Tensor(ChannelsLast({batch, in, side, side}));
  const HostTensor w = Tensor(DenseLayout({out, in / groups, kernel, kernel}));
  const HostTensor y = Tensor(ChannelsLast({batch, out, result, result}));
  const double flops = 2.0 * static_cast<double>(y.numel() * in / groups * kernel * kernel);
  Op forward;
  Op grad_input;
  Op grad_weight;
  *forward.mutable_convolution() = op;
  *grad_input.mutable_convolution_backward_input()->mutable_forward() = op;
  *grad_weight.mutable_convolution_backward_weight()->mutable_forward() = op;
  cases.push_back({name + "/forward", forward, {x, w}, {y}, flops});
  cases.push_back({name + "/grad_input", grad_input, {y, w}, {x}, flops});
  cases.push_back({name + "/grad_weight", grad_weight, {y, x}, {w}, flops});
  if (groups != 1) return;
  const auto half = [](const HostTensor& tensor) { return Tensor(tensor.layout(), DType::kBFloat16); };
  cases.push_back({name + "/forward/bf16", forward, {half(x), half(w)}, {half(y)}, flops});
  cases.push_back({name + "/grad_input/bf16", grad_input, {half(y), half(w)}, {half(x)}, flops});
  cases.push_back({name + "/grad_weight/bf16", grad_weight, {half(y), half(x)}, {half(w)}, flops});
}

// Adds a transposed convolution of square images with a bias, which doubles their side.
void AddUpsampling(const std::string& name, int64_t batch, int64_t in, int64_t side, int64_t out,
                   std::vector<OpCase>& cases) {
  OpCase c;
  c.name = name;
  serialization::Convolution& op = *c.op.mutable_convolution();
  for (int d = 0; d < 2; ++d) {
    op.add_stride(2);
    op.add_padding(1);
    op.add_dilation(1);
    op.add_output_padding(0);
  }
  op.set_groups(1);
  op.set_transposed(true);
  c.inputs = {Tensor(ChannelsLast({batch, in, side, side})), Tensor(DenseLayout({in, out, 4, 4})),
              Tensor(DenseLayout({out}))};
  c.outputs = {Tensor(ChannelsLast({batch, out, 2 * side, 2 * side}))};
  c.flops = 2.0 * static_cast<double>(c.inputs[0].numel() * out * 16);
  cases.push_back(std::move(c));
}

// Returns the attributes of a pool with square windows, padded by half a window if they overlap.
serialization::Pool SquarePool(int64_t kernel, int64_t stride) {
  serialization::Pool op;
  for (int d = 0; d < 2; ++d) {
    op.add_kernel(kernel);
    op.add_stride(stride);
    op.add_padding(kernel > stride ? kernel / 2 : 0);
    op.add_dilation(1);
  }
  return op;
}

// Adds an average pool and its backward, channels last and row-major.
void AddAveragePool(const std::string& name, int64_t batch, int64_t channels, int64_t side, int64_t kernel,
                    int64_t stride, std::vector<OpCase>& cases) {
  const serialization::Pool op = SquarePool(kernel, stride);
  const int64_t result = PoolOutputSize(op, 0, side);
  Op forward;
  Op backward;
  *forward.mutable_avg_pool() = op;
  *backward.mutable_avg_pool_backward() = op;
  for (const bool is_last : {true, false}) {
    const DimVector order = is_last ? DimVector{0, 2, 3, 1} : DimVector{};
    const HostTensor x = Tensor(DenseLayout({batch, channels, side, side}, order));
    const HostTensor y = Tensor(DenseLayout({batch, channels, result, result}, order));
    const std::string prefix = name + (is_last ? "" : "/row_major");
    cases.push_back({prefix + "/forward", forward, {x}, {y}});
    cases.push_back({prefix + "/backward", backward, {y}, {x}});
  }
}

void AddMaxPool(const std::string& name, int64_t batch, int64_t channels, int64_t side, std::vector<OpCase>& cases,
                int64_t kernel = 2, int64_t stride = 2) {
  const serialization::Pool op = SquarePool(kernel, stride);
  const int64_t result = PoolOutputSize(op, 0, side);
  Op forward;
  Op backward;
  *forward.mutable_max_pool() = op;
  *backward.mutable_max_pool_backward() = op;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const HostTensor x = Tensor(ChannelsLast({batch, channels, side, side}), dtype);
    const HostTensor y = Tensor(ChannelsLast({batch, channels, result, result}), dtype);
    const HostTensor index = Tensor(ChannelsLast({batch, channels, result, result}), DType::kInt32);
    cases.push_back({name + "/forward" + SuffixOf(dtype), forward, {x}, {y, index}});
    cases.push_back({name + "/backward" + SuffixOf(dtype), backward, {y, index}, {x}});
  }
}

// Adds a causal attention and its gradients, in f32 and in bf16.
void AddAttention(const std::string& name, int64_t batch, int64_t heads, int64_t length, int64_t size,
                  std::vector<OpCase>& cases) {
  const DimVector sizes = {batch, heads, length, size};
  // The layout in a transformer block: [batch, length, 3, heads, size].
  const int64_t row = 3 * heads * size;
  const HostTensor logsumexp = Tensor(DenseLayout({batch, heads, length}));
  Op forward;
  forward.mutable_attention()->set_is_causal(true);
  forward.mutable_attention()->set_scale(0.18);
  Op backward;
  *backward.mutable_attention_backward() = forward.attention();
  const double flops = 4.0 * static_cast<double>(batch * heads * length * length * size);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const std::string prefix = name + SuffixOf(dtype);
    const HostTensor q = Tensor({sizes, {length * row, size, row, 1}, 0}, dtype);
    const HostTensor result = Tensor(DenseLayout(sizes, {0, 2, 1, 3}), dtype);
    cases.push_back({prefix + "/forward", forward, {q, q, q}, {result, logsumexp}, flops});
    cases.push_back(
        {prefix + "/backward", backward, {result, q, q, q, result, logsumexp}, {result, result, result}, 2.5 * flops});
  }
}

void AddRecurrent(const std::string& name, serialization::Recurrent::Cell cell, int64_t steps, int64_t batch,
                  int64_t size, std::vector<OpCase>& cases) {
  const bool is_lstm = cell == serialization::Recurrent::LSTM;
  const int64_t gates = (is_lstm ? 4 : 3) * size;
  const HostTensor projected = Tensor(DenseLayout({steps, batch, gates}));
  std::mt19937_64 random(2);
  const HostTensor weight = RandomTensor(DType::kFloat32, DenseLayout({gates, size}), random, -0.1, 0.1);
  const HostTensor state = Tensor(DenseLayout({batch, size}));
  const HostTensor hidden = Tensor(DenseLayout({steps, batch, size}));
  const HostTensor saved = Tensor(DenseLayout({steps, batch, 4 * size}));
  OpCase forward, backward;
  forward.name = name + "/forward";
  backward.name = name + "/backward";
  forward.flops = backward.flops = 2.0 * static_cast<double>(steps * batch * gates * size);
  forward.op.mutable_recurrent()->set_cell(cell);
  *backward.op.mutable_recurrent_backward() = forward.op.recurrent();
  forward.inputs = {projected, weight, state};
  backward.inputs = {hidden, hidden, weight, state, saved};
  if (is_lstm) {
    forward.inputs.push_back(state);
    forward.outputs = {hidden, hidden, saved};
    backward.inputs.insert(backward.inputs.end(), {hidden, state, state});
    backward.outputs = {projected, state, state};
  } else {
    forward.outputs = {hidden, saved};
    backward.outputs = {saved, state};
  }
  cases.push_back(std::move(forward));
  cases.push_back(std::move(backward));
}

void AddEmbedding(const std::string& name, int64_t tokens, int64_t rows, int64_t size, std::vector<OpCase>& cases) {
  const HostTensor table = Tensor(DenseLayout({rows, size}));
  const HostTensor index = Tensor(DenseLayout({tokens}), DType::kInt64);
  const HostTensor picked = Tensor(DenseLayout({tokens, size}));
  Op gather;
  gather.mutable_gather()->set_dim(0);
  Op scatter;
  scatter.mutable_scatter_add()->set_dim(0);
  scatter.mutable_scatter_add()->set_padding_index(-1);
  cases.push_back({name + "/gather", gather, {table, index}, {picked}});
  cases.push_back({name + "/scatter_add", scatter, {picked, index}, {table}});
}

OpCase Copy(std::string name, StridedLayout from, StridedLayout to) {
  OpCase c;
  c.name = std::move(name);
  c.op.mutable_copy();
  c.inputs.push_back(Tensor(std::move(from)));
  c.outputs.push_back(Tensor(std::move(to)));
  return c;
}

// Adds decompositions of a square matrix with `rows` rows.
void AddDecompositions(const std::string& name, int64_t rows, std::vector<OpCase>& cases) {
  using serialization::LinearAlgebra;
  const DimVector square = {rows, rows}, vector = {rows};
  const auto add = [&](const char* function_name, LinearAlgebra::Function function,
                       const std::vector<DimVector>& outputs) {
    OpCase c;
    c.name = name + "/" + function_name;
    c.op.mutable_linear_algebra()->set_function(function);
    c.inputs.push_back(Tensor(DenseLayout(square)));
    for (const DimVector& sizes : outputs) c.outputs.emplace_back(DType::kFloat32, sizes);
    cases.push_back(std::move(c));
  };
  add("eigh", LinearAlgebra::EIGH, {vector, square});
  add("svd", LinearAlgebra::SVD, {vector, square, square});
  add("qr", LinearAlgebra::QR, {square, square});
}

std::vector<OpCase> AllCases() {
  std::vector<OpCase> cases;
  AddLinear("mlp/784x256", 32, 784, 256, cases);
  AddLinear("mlp/256x128", 32, 256, 128, cases);
  AddLinear("mlp/128x10", 32, 128, 10, cases);
  AddLinear("vgg/4096x4096/1", 1, 4096, 4096, cases);
  AddLinear("vgg/4096x4096/4", 4, 4096, 4096, cases);
  AddLinear("few_rows/512x256/1", 1, 512, 256, cases);
  AddLinear("few_rows/512x256/4", 4, 512, 256, cases);
  AddLinear("few_rows/64x64/1", 1, 64, 64, cases);
  AddLinear("few_rows/64x64/4", 4, 64, 64, cases);
  AddLinear("few_rows/768x768/2", 2, 768, 768, cases);
  AddConvolution("cnn/1x16", 32, 1, 28, 16, 3, 1, cases);
  AddConvolution("cnn/16x32", 32, 16, 14, 32, 3, 1, cases);
  AddMaxPool("cnn/max_pool_28", 32, 16, 28, cases);
  AddMaxPool("cnn/max_pool_14", 32, 32, 14, cases);
  AddLinear("cnn/1568x10", 32, 1568, 10, cases);
  AddConvolution("lenet/1x6", 8, 1, 28, 6, 5, 1, cases);
  AddConvolution("lenet/6x16", 8, 6, 14, 16, 5, 1, cases);
  AddAveragePool("lenet/avg_pool_28", 8, 6, 28, 2, 2, cases);
  AddAveragePool("lenet/avg_pool_10", 8, 16, 10, 2, 2, cases);
  AddAveragePool("densenet/avg_pool_14", 2, 256, 14, 2, 2, cases);
  AddAveragePool("inception/avg_pool_17", 2, 768, 17, 3, 1, cases);
  AddMaxPool("lenet/max_pool_28", 8, 6, 28, cases);
  AddMaxPool("lenet/max_pool_24", 8, 20, 24, cases);
  AddMaxPool("resnet50/max_pool_112", 1, 64, 112, cases, 3, 2);
  AddMaxPool("yolo/max_pool_20", 1, 128, 20, cases, 5, 1);
  AddUpsampling("autoencoder/8x1", 8, 8, 14, 1, cases);
  AddUpsampling("autoencoder/16x8", 8, 16, 7, 8, cases);
  AddUpsampling("dcgan/64x3", 4, 64, 32, 3, cases);
  AddUpsampling("dcgan/64x8", 4, 64, 16, 8, cases);
  AddUpsampling("dcgan/256x3", 4, 256, 8, 3, cases);
  AddLinear("gpt/qkv", 512, 128, 384, cases);
  AddLinear("gpt/project", 512, 128, 128, cases);
  AddLinear("gpt/up", 512, 128, 512, cases);
  AddLinear("gpt/down", 512, 512, 128, cases);
  AddHeads("gpt/heads", 32, 64, 32, cases);
  AddHeads("vit/heads_17x16", 32, 17, 16, cases);
  AddHeads("bert/heads_24x16", 32, 24, 16, cases);
  AddHeads("bert/heads_32x64", 12, 32, 64, cases);
  AddHeads("bert/heads_12x32", 16, 12, 32, cases);
  AddHeads("swin/heads_49x32", 24, 49, 32, cases);
  AddLinear("lstm/input", 1024, 128, 512, cases);
  AddLinear("lstm/tags", 1024, 128, 64, cases);
  AddLinear("gru/input", 1024, 128, 384, cases);
  AddLinear("resnet/128x10", 16, 128, 10, cases);
  AddLinear("bert/project", 512, 768, 768, cases);
  AddLinear("bert/up", 512, 768, 3072, cases);
  AddLinear("vit/down", 394, 3072, 768, cases);
  for (const int64_t rows : {1, 2, 4, 8, 16, 24}) {
    AddLinear("rows/" + std::to_string(rows), rows, 512, 768, cases);
  }
  AddAttention("gpt/attention_64", 8, 4, 64, 32, cases);
  AddAttention("gpt/attention_512", 2, 4, 512, 32, cases);
  AddAttention("gpt2/attention_1024", 1, 12, 1024, 64, cases);
  AddEmbedding("gpt/embedding", 512, 512, 128, cases);
  AddConvolution("resnet/3x32", 16, 3, 32, 32, 3, 1, cases);
  AddConvolution("resnet/32x32", 16, 32, 32, 32, 3, 1, cases);
  AddConvolution("resnet/32x64_s2", 16, 32, 32, 64, 3, 2, cases);
  AddConvolution("resnet/64x64", 16, 64, 16, 64, 3, 1, cases);
  AddConvolution("resnet/32x64_1x1", 16, 32, 32, 64, 1, 2, cases);
  AddConvolution("resnet/64x128_s2", 16, 64, 16, 128, 3, 2, cases);
  AddConvolution("resnet/128x128", 16, 128, 8, 128, 3, 1, cases);
  AddConvolution("resnet/64x128_1x1", 16, 64, 16, 128, 1, 2, cases);
  AddConvolution("resnet50/64x64_56", 2, 64, 56, 64, 3, 1, cases);
  AddConvolution("resnet50/256x256_14", 2, 256, 14, 256, 3, 1, cases);
  AddConvolution("resnet50/512x512_7", 2, 512, 7, 512, 3, 1, cases);
  AddConvolution("resnet20/64x64_8", 4, 64, 8, 64, 3, 1, cases);
  AddConvolution("resnet18/256x256_8", 2, 256, 8, 256, 3, 1, cases);
  AddConvolution("deeplab/64x64_d2", 4, 64, 32, 64, 3, 1, cases, 1, 2);
  AddConvolution("deeplab/960x256_d12", 2, 960, 16, 256, 3, 1, cases, 1, 12);
  AddConvolution("resnet18/512x512_4", 4, 512, 4, 512, 3, 1, cases);
  AddConvolution("vgg/512x512_14", 2, 512, 14, 512, 3, 1, cases);
  AddConvolution("fcn/2048x512", 1, 2048, 16, 512, 3, 1, cases);
  AddConvolution("fcn/64x256_1x1", 1, 64, 32, 256, 1, 1, cases);
  AddConvolution("fcn/2048x512_1x1", 1, 2048, 16, 512, 1, 1, cases);
  AddConvolution("resnet50/3x64_7x7_s2", 2, 3, 224, 64, 7, 2, cases);
  AddConvolution("resnet50/128x128_s2", 2, 128, 56, 128, 3, 2, cases);
  AddConvolution("resnet50/256x256_s2", 2, 256, 28, 256, 3, 2, cases);
  AddConvolution("resnet50/512x512_s2", 2, 512, 14, 512, 3, 2, cases);
  AddConvolution("resnet50/256x512_1x1_s2", 2, 256, 56, 512, 1, 2, cases);
  AddConvolution("resnet50/1024x2048_1x1_s2", 2, 1024, 14, 2048, 1, 2, cases);
  AddConvolution("mobilenet/3x16_s2", 2, 3, 224, 16, 3, 2, cases);
  AddConvolution("convnext/3x96_patches", 2, 3, 224, 96, 4, 4, cases);
  AddConvolution("convnext/96x192_patches", 2, 96, 56, 192, 2, 2, cases);
  AddConvolution("convnext/384x768_patches", 2, 384, 14, 768, 2, 2, cases);
  AddConvolution("vit/3x768_patches", 2, 3, 224, 768, 16, 16, cases);
  AddConvolution("alexnet/64x192_5x5", 2, 64, 27, 192, 5, 1, cases);
  AddConvolution("resnet50/256x64_1x1", 2, 256, 56, 64, 1, 1, cases);
  AddConvolution("resnet50/64x256_1x1", 2, 64, 56, 256, 1, 1, cases);
  AddConvolution("resnet50/1024x256_1x1", 2, 1024, 14, 256, 1, 1, cases);
  AddConvolution("resnet50/2048x512_1x1", 2, 2048, 7, 512, 1, 1, cases);
  AddConvolution("mobilenet/112x672_1x1", 2, 112, 14, 672, 1, 1, cases);
  AddConvolution("mobilenet/24x72_1x1", 2, 24, 56, 72, 1, 1, cases);
  AddConvolution("mobilenet/672x112_1x1", 4, 672, 8, 112, 1, 1, cases);
  AddConvolution("mobilenet/96x24_1x1", 4, 96, 32, 24, 1, 1, cases);
  AddConvolution("mobilenet/64x64_depthwise_s2", 2, 64, 112, 64, 3, 2, cases, 64);
  AddConvolution("mobilenet/72x72_depthwise", 2, 72, 56, 72, 3, 1, cases, 72);
  AddConvolution("mobilenet/672x672_depthwise", 2, 672, 14, 672, 3, 1, cases, 672);
  AddConvolution("mobilenet/960x960_depthwise", 2, 960, 7, 960, 5, 1, cases, 960);
  AddConvolution("shufflenet/58x58_depthwise", 2, 58, 28, 58, 3, 1, cases, 58);
  AddConvolution("shufflenet/232x232_depthwise", 2, 232, 7, 232, 3, 1, cases, 232);
  AddConvolution("mobilenet/240x240_depthwise_2", 4, 240, 2, 240, 3, 1, cases, 240);
  AddConvolution("mobilenet/576x96_1x1", 4, 576, 2, 96, 1, 1, cases);
  AddConvolution("mobilenet/96x576_1x1", 4, 96, 2, 576, 1, 1, cases);
  AddConvolution("mobilenet/240x40_1x1", 4, 240, 4, 40, 1, 1, cases);
  AddConvolution("mobilenet/40x240_1x1", 4, 40, 4, 240, 1, 1, cases);
  AddConvolution("mobilenet/72x24_1x1", 4, 72, 8, 24, 1, 1, cases);
  AddConvolution("mobilenet/64x384_1x1", 4, 64, 7, 384, 1, 1, cases);
  AddConvolution("efficientnet/1152x192_1x1", 4, 1152, 2, 192, 1, 1, cases);
  AddConvolution("efficientnet/192x1152_1x1", 4, 192, 2, 1152, 1, 1, cases);
  AddConvolution("regnet/104x104_grouped", 2, 104, 28, 104, 3, 1, cases, 13);
  AddConvolution("regnet/208x208_grouped_s2", 2, 208, 28, 208, 3, 2, cases, 26);
  AddConvolution("regnet/440x440_grouped", 2, 440, 7, 440, 3, 1, cases, 55);
  AddConvolution("resnext/128x128_grouped", 2, 128, 56, 128, 3, 1, cases, 32);
  AddConvolution("resnext/256x256_grouped", 2, 256, 28, 256, 3, 1, cases, 32);
  AddConvolution("resnext/512x512_grouped", 2, 512, 14, 512, 3, 1, cases, 32);
  AddConvolution("resnext/1024x1024_grouped", 2, 1024, 7, 1024, 3, 1, cases, 32);
  AddConvolution("convnext/96x96_depthwise", 2, 96, 56, 96, 7, 1, cases, 96);
  AddRecurrent("lstm", serialization::Recurrent::LSTM, 64, 16, 128, cases);
  AddRecurrent("gru", serialization::Recurrent::GRU, 64, 16, 128, cases);
  AddFrozenLinear("gpt2/qkv", 128, 768, 2304, cases);
  AddFrozenLinear("gpt2/up", 128, 768, 3072, cases);
  AddFrozenLinear("gpt2/down", 128, 3072, 768, cases);
  AddDecompositions("decompose_256", 256, cases);
  cases.push_back(Copy("copy/rows_to_channels_last", DenseLayout({16, 64, 32, 32}), ChannelsLast({16, 64, 32, 32})));
  cases.push_back(Copy("copy/transpose", DenseLayout({1024, 1024}), DenseLayout({1024, 1024}, {1, 0})));
  cases.push_back(Copy("copy/dense", DenseLayout({1024, 1024}), DenseLayout({1024, 1024})));
  return cases;
}

}  // namespace
}  // namespace cotan

int main(int argc, char** argv) {
  std::vector<cotan::OpCase> cases = cotan::AllCases();
  for (cotan::OpCase& c : cases) {
    for (const int threads : {1, 2}) {
      benchmark::RegisterBenchmark((c.name + "/threads:" + std::to_string(threads)).c_str(),
                                   [&c, threads](benchmark::State& state) { cotan::RunCase(state, c, threads); })
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/portable/portable.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/cpu/convolution/convolution_problem.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/cpu/matmul/computed_operand.h"
#include "kernels/cpu/matmul/matmul_epilogue.h"
#include "kernels/cpu/matmul/matmul_steps.h"
#include "kernels/cpu/portable/portable_gemm.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {
namespace {

template <typename T>
inline constexpr DType kDTypeOf = DType::kFloat32;
template <>
inline constexpr DType kDTypeOf<double> = DType::kFloat64;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::kInt32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::kInt64;

absl::Status WrongDType(absl::string_view op, DType dtype, DType expected) {
  return absl::UnimplementedError(
      absl::StrCat(op, ": dtype ", DTypeName(dtype), " is not supported; expected ", DTypeName(expected)));
}

// A batched product; threads share the matrices of the batch and blocks of their rows.
template <typename T>
class ProductKernel final : public Kernel {
 public:
  ProductKernel(MatmulGeometry geometry, bool adds, int threads)
      : geometry_(std::move(geometry)), adds_(adds), threads_(threads), worker_bytes_(PortableGemmBytes(sizeof(T))) {
    const int64_t wanted = geometry_.BatchSize() >= threads ? 1 : threads;
    rows_ = std::max<int64_t>(1, (geometry_.m + wanted - 1) / wanted);
    blocks_ = (geometry_.m + rows_ - 1) / rows_;
    scratch_bytes_ = worker_bytes_ * static_cast<size_t>(threads_);
  }

  absl::Status Run(const KernelArgs& args) override {
    ParallelForWorker(threads_, geometry_.BatchSize() * blocks_, 1, [&](int worker, int64_t i, int64_t) {
      const T* a = static_cast<const T*>(args.inputs[0]);
      const T* b = static_cast<const T*>(args.inputs[1]);
      T* c = static_cast<T*>(args.outputs[0]);
      int64_t rest = i / blocks_;
      for (size_t d = geometry_.batch.size(); d-- > 0;) {
        const BatchLoop& loop = geometry_.batch[d];
        const int64_t at = rest % loop.size;
        rest /= loop.size;
        a += at * loop.a;
        b += at * loop.b;
        c += at * loop.c;
      }
      const int64_t row = i % blocks_ * rows_;
      PortableGemm(std::min(rows_, geometry_.m - row), geometry_.n, geometry_.k, a + row * geometry_.a.row, geometry_.a,
                   b, geometry_.b, c + row * geometry_.c.row, geometry_.c.row, adds_,
                   static_cast<char*>(args.scratch) + worker_bytes_ * static_cast<size_t>(worker));
    });
    return absl::OkStatus();
  }

 private:
  MatmulGeometry geometry_;
  bool adds_;
  int threads_;
  size_t worker_bytes_;
  int64_t rows_;
  int64_t blocks_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeProduct(const MatmulGeometry& geometry, Addend addend, DType dtype,
                                                    int threads) {
  const bool adds = addend == Addend::kInOutput;
  switch (dtype) {
    case DType::kFloat32:
      return std::make_unique<ProductKernel<float>>(geometry, adds, threads);
    case DType::kFloat64:
      return std::make_unique<ProductKernel<double>>(geometry, adds, threads);
    case DType::kInt32:
      return std::make_unique<ProductKernel<int32_t>>(geometry, adds, threads);
    case DType::kInt64:
      return std::make_unique<ProductKernel<int64_t>>(geometry, adds, threads);
    default:
      return absl::UnimplementedError(
          absl::StrCat("matmul: dtype ", DTypeName(dtype), " is not supported; expected f32, f64, i32 or i64"));
  }
}

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeProductOf(const MatmulGeometry& geometry, Addend addend, DType dtype,
                                                      int threads) {
  if (dtype != kDTypeOf<T>) return WrongDType("matmul", dtype, kDTypeOf<T>);
  return std::make_unique<ProductKernel<T>>(geometry, addend == Addend::kInOutput, threads);
}

// Sizes of a convolution on row-major operands, always with three spatial dimensions.
struct ImageGeometry {
  int64_t batch;
  int64_t groups;
  int64_t in;   // channels of a group
  int64_t out;  // channels of a group
  std::array<int64_t, 3> source = {1, 1, 1};
  std::array<int64_t, 3> kernel = {1, 1, 1};
  std::array<int64_t, 3> destination = {1, 1, 1};
  std::array<int64_t, 3> stride = {1, 1, 1};
  std::array<int64_t, 3> dilation = {1, 1, 1};
  std::array<int64_t, 3> padding = {0, 0, 0};

  explicit ImageGeometry(const ConvolutionProblem& problem)
      : batch(problem.source.layout.sizes[0]),
        groups(problem.groups),
        in(problem.weights.layout.sizes[1]),
        out(problem.weights.layout.sizes[0] / problem.groups) {
    const size_t spatial = problem.stride.size();
    for (size_t d = 0; d < spatial; ++d) {
      const size_t axis = 3 - spatial + d;
      source[axis] = problem.source.layout.sizes[d + 2];
      kernel[axis] = problem.weights.layout.sizes[d + 2];
      destination[axis] = problem.destination.layout.sizes[d + 2];
      stride[axis] = problem.stride[d];
      dilation[axis] = problem.dilation[d] + 1;
      padding[axis] = problem.padding_before[d];
    }
  }

  int64_t Taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t SourcePlane() const { return source[0] * source[1] * source[2]; }
  int64_t DestinationPlane() const { return destination[0] * destination[1] * destination[2]; }
  // Returns the number of rows of the matrix of windows.
  int64_t Depth() const { return in * Taps(); }

  // Calls fn(row of the matrix, its first column, offset in the image, source position of that column) for
  // each run of destination positions along the last axis. The offset is -1 if the run is outside the image
  // along one of the other axes.
  template <typename Fn>
  void ForEachRun(Fn fn) const {
    for (int64_t row = 0; row < Depth(); ++row) {
      const int64_t kw = row % kernel[2];
      const int64_t kh = row / kernel[2] % kernel[1];
      const int64_t kd = row / (kernel[2] * kernel[1]) % kernel[0];
      const int64_t channel = row / Taps() * SourcePlane();
      for (int64_t d = 0; d < destination[0]; ++d) {
        const int64_t id = d * stride[0] - padding[0] + kd * dilation[0];
        for (int64_t h = 0; h < destination[1]; ++h) {
          const int64_t ih = h * stride[1] - padding[1] + kh * dilation[1];
          const bool inside = id >= 0 && id < source[0] && ih >= 0 && ih < source[1];
          fn(row, (d * destination[1] + h) * destination[2], inside ? channel + (id * source[1] + ih) * source[2] : -1,
             kw * dilation[2] - padding[2]);
        }
      }
    }
  }
};

// Gathers the windows of one image and group into a matrix [Depth(), DestinationPlane()] (im2col).
template <typename T>
void GatherWindows(const ImageGeometry& g, const T* image, T* matrix) {
  g.ForEachRun([&](int64_t row, int64_t column, int64_t offset, int64_t start) {
    T* to = matrix + row * g.DestinationPlane() + column;
    for (int64_t w = 0; w < g.destination[2]; ++w) {
      const int64_t iw = start + w * g.stride[2];
      to[w] = offset >= 0 && iw >= 0 && iw < g.source[2] ? image[offset + iw] : T{0};
    }
  });
}

// Adds a matrix of windows to the image (col2im).
template <typename T>
void AddWindows(const ImageGeometry& g, const T* matrix, T* image) {
  g.ForEachRun([&](int64_t row, int64_t column, int64_t offset, int64_t start) {
    if (offset < 0) return;
    const T* from = matrix + row * g.DestinationPlane() + column;
    for (int64_t w = 0; w < g.destination[2]; ++w) {
      const int64_t iw = start + w * g.stride[2];
      if (iw >= 0 && iw < g.source[2]) image[offset + iw] += from[w];
    }
  });
}

// A convolution on row-major operands. Inputs: source or destination, then weights (forward, backward data);
// source, then destination (backward weights). The results of both backward products must be zero before the
// run.
template <typename T>
class ImageKernel final : public Kernel {
 public:
  ImageKernel(const ImageGeometry& geometry, ConvolutionProduct product, int threads)
      : g_(geometry), product_(product), threads_(threads) {
    matrix_bytes_ = RoundUp(static_cast<size_t>(g_.Depth() * g_.DestinationPlane()) * sizeof(T), kScratchAlignment);
    worker_bytes_ = matrix_bytes_ + PortableGemmBytes(sizeof(T));
    scratch_bytes_ = worker_bytes_ * static_cast<size_t>(threads_);
  }

  absl::Status Run(const KernelArgs& args) override {
    const bool by_image = product_ != ConvolutionProduct::kBackwardWeights;
    // One thread sums over all images, so that the order is fixed.
    const int64_t parts = by_image ? g_.batch * g_.groups : g_.groups;
    ParallelForWorker(threads_, parts, 1, [&](int worker, int64_t i, int64_t) {
      char* scratch = static_cast<char*>(args.scratch) + worker_bytes_ * static_cast<size_t>(worker);
      T* matrix = reinterpret_cast<T*>(scratch);
      void* buffer = scratch + matrix_bytes_;
      if (product_ == ConvolutionProduct::kForward) return Forward(args, i, matrix, buffer);
      if (product_ == ConvolutionProduct::kBackwardData) return BackwardData(args, i, matrix, buffer);
      for (int64_t n = 0; n < g_.batch; ++n) BackwardWeights(args, n * g_.groups + i, i, matrix, buffer);
    });
    return absl::OkStatus();
  }

 private:
  // `image` is the image's number times the number of groups, plus the group.
  int64_t Source(int64_t image) const { return image * g_.in * g_.SourcePlane(); }
  int64_t Destination(int64_t image) const { return image * g_.out * g_.DestinationPlane(); }
  int64_t Weights(int64_t group) const { return group * g_.out * g_.Depth(); }

  void Forward(const KernelArgs& args, int64_t image, T* matrix, void* buffer) const {
    const int64_t plane = g_.DestinationPlane();
    GatherWindows(g_, static_cast<const T*>(args.inputs[0]) + Source(image), matrix);
    PortableGemm<T>(g_.out, plane, g_.Depth(), static_cast<const T*>(args.inputs[1]) + Weights(image % g_.groups),
                    {g_.Depth(), 1}, matrix, {plane, 1}, static_cast<T*>(args.outputs[0]) + Destination(image), plane,
                    false, buffer);
  }

  void BackwardData(const KernelArgs& args, int64_t image, T* matrix, void* buffer) const {
    const int64_t plane = g_.DestinationPlane();
    PortableGemm<T>(g_.Depth(), plane, g_.out, static_cast<const T*>(args.inputs[1]) + Weights(image % g_.groups),
                    {1, g_.Depth()}, static_cast<const T*>(args.inputs[0]) + Destination(image), {plane, 1}, matrix,
                    plane, false, buffer);
    AddWindows(g_, matrix, static_cast<T*>(args.outputs[0]) + Source(image));
  }

  void BackwardWeights(const KernelArgs& args, int64_t image, int64_t group, T* matrix, void* buffer) const {
    const int64_t plane = g_.DestinationPlane();
    GatherWindows(g_, static_cast<const T*>(args.inputs[0]) + Source(image), matrix);
    PortableGemm<T>(g_.out, g_.Depth(), plane, static_cast<const T*>(args.inputs[1]) + Destination(image), {plane, 1},
                    matrix, {1, plane}, static_cast<T*>(args.outputs[0]) + Weights(group), g_.Depth(), true, buffer);
  }

  ImageGeometry g_;
  ConvolutionProduct product_;
  int threads_;
  size_t matrix_bytes_;
  size_t worker_bytes_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeImageKernel(DType dtype, const ConvolutionProblem& problem, int threads) {
  const ImageGeometry geometry(problem);
  if (dtype == DType::kFloat32) return std::make_unique<ImageKernel<float>>(geometry, problem.product, threads);
  if (dtype == DType::kFloat64) return std::make_unique<ImageKernel<double>>(geometry, problem.product, threads);
  return absl::UnimplementedError(
      absl::StrCat("convolution: dtype ", DTypeName(dtype), " is not supported; expected f32 or f64"));
}

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakeImageKernelOf(DType dtype, const ConvolutionProblem& problem, int threads) {
  if (dtype != kDTypeOf<T>) return WrongDType("convolution", dtype, kDTypeOf<T>);
  return std::make_unique<ImageKernel<T>>(ImageGeometry(problem), problem.product, threads);
}

// Makes the kernel of a convolution on row-major operands.
using ImageFactory = absl::StatusOr<std::unique_ptr<Kernel>> (*)(DType dtype, const ConvolutionProblem& problem,
                                                                 int threads);

// Returns a slot with the operand in row-major order.
Slot BringRowMajor(const ConvolutionOperand& operand, size_t element, int threads, Pipeline& pipeline) {
  const StridedLayout& layout = operand.layout;
  if (IsContiguous(layout)) return operand.slot;
  const Slot dense = pipeline.AddScratch(static_cast<size_t>(NumElements(layout.sizes)) * element);
  pipeline.Add(MakeCopyKernel(element, layout.sizes, layout.strides, ContiguousStrides(layout.sizes), threads),
               {operand.slot}, {dense});
  return dense;
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeConvolution(const KernelRequest& request, ImageFactory factory) {
  COTAN_ASSIGN_OR_RETURN(const ConvolutionProblem problem, DescribeConvolution(request));
  const DType dtype = request.outputs[0].dtype;
  const size_t element = ByteSize(dtype);
  const int threads = ThreadsWorthwhile(request.threads, problem.Flops());
  auto pipeline = std::make_unique<Pipeline>(threads);
  const ConvolutionOperand& result = problem.Result();
  const StridedLayout dense{result.layout.sizes, ContiguousStrides(result.layout.sizes), 0};
  if (NumElements(dense.sizes) == 0) return pipeline;
  const bool in_place = IsContiguous(result.layout);
  const Slot output =
      in_place ? result.slot : pipeline->AddScratch(static_cast<size_t>(NumElements(dense.sizes)) * element);
  if (problem.IsSumEmpty() || problem.product != ConvolutionProduct::kForward) {
    pipeline->Add(MakeZeroKernel(element, dense, threads), {}, {output});
  }
  if (!problem.IsSumEmpty()) {
    const bool is_forward = problem.product == ConvolutionProduct::kForward;
    const bool is_weights = problem.product == ConvolutionProduct::kBackwardWeights;
    const Slot first =
        BringRowMajor(is_forward || is_weights ? problem.source : problem.destination, element, threads, *pipeline);
    const Slot second = BringRowMajor(is_weights ? problem.destination : problem.weights, element, threads, *pipeline);
    COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, factory(dtype, problem, threads));
    pipeline->Add(std::move(kernel), {first, second}, {output});
  }
  if (problem.bias) {
    pipeline->Add(MakeBiasKernel(dtype, dense, problem.bias->layout.strides[0], threads), {problem.bias->slot},
                  {output});
  }
  if (!in_place) {
    pipeline->Add(MakeCopyKernel(element, dense.sizes, dense.strides, result.layout.strides, threads), {output},
                  {result.slot});
  }
  return pipeline;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakePortableMatmul(const KernelRequest& request) {
  if (request.op.matmul().has_epilogue()) return MakeMatmulEpilogue(request, MakePortableMatmul);
  return MakeMatmulSteps(request, {MakeProduct, /*takes_bias=*/false});
}

absl::StatusOr<std::unique_ptr<Kernel>> MakePortableMatmulOfComputedOperand(const ComputedOperandRequest& request) {
  return MakeComputedOperandProduct(request, {MakeProductOf<float>, /*takes_bias=*/false}, MakeExpr);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakePortableConvolution(const KernelRequest& request) {
  return MakeConvolution(request, MakeImageKernel);
}

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakePortableProductOf(const KernelRequest& request) {
  return MakeMatmulSteps(request, {MakeProductOf<T>, /*takes_bias=*/false});
}
template absl::StatusOr<std::unique_ptr<Kernel>> MakePortableProductOf<float>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakePortableProductOf<double>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakePortableProductOf<int32_t>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakePortableProductOf<int64_t>(const KernelRequest& request);

template <typename T>
absl::StatusOr<std::unique_ptr<Kernel>> MakePortableConvolutionOf(const KernelRequest& request) {
  return MakeConvolution(request, MakeImageKernelOf<T>);
}
template absl::StatusOr<std::unique_ptr<Kernel>> MakePortableConvolutionOf<float>(const KernelRequest& request);
template absl::StatusOr<std::unique_ptr<Kernel>> MakePortableConvolutionOf<double>(const KernelRequest& request);

}  // namespace cotan::cpu

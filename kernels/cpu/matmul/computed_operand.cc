// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/computed_operand.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/api/expr_program.h"
#include "kernels/cpu/matmul/operand_blocks.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {
namespace {

// The product in blocks. Inputs: the left matrix, one that is not read, and the bias if there is one.
class BlockedProduct final : public Kernel {
 public:
  BlockedProduct(const OperandBlocks& blocks, const KernelRequest& expression, Addend addend, int threads)
      : blocks_(blocks), g_(blocks.geometry), addend_(addend) {
    g_.a = NormalizeUnitStrides(g_.m, g_.k, g_.a);
    g_.c = NormalizeUnitStrides(g_.m, g_.n, g_.c);
    num_columns_ = (g_.n + blocks_.width - 1) / blocks_.width;
    workers_.resize(static_cast<size_t>(std::min<int64_t>(threads, num_columns_)));
    const DimVector& domain = expression.outputs[0].layout.sizes;
    for (const TensorSpec& input : expression.inputs) {
      const DimVector strides = BroadcastStrides(input.layout, domain);
      const auto bytes = static_cast<int64_t>(ByteSize(input.dtype));
      const auto step_of = [&](int dim) { return dim < 0 ? 0 : strides[static_cast<size_t>(dim)] * bytes; };
      k_steps_.push_back(step_of(blocks_.k.dim));
      n_steps_.push_back(step_of(blocks_.n.dim));
    }
    block_bytes_ = RoundUp(static_cast<size_t>(blocks_.BlockElements()) * sizeof(float), kScratchAlignment);
  }

  // Makes the kernels of each worker for each size of a block.
  absl::Status MakeKernels(const KernelRequest& expression, const ProductMaker& maker, KernelFactory expr) {
    const int64_t depths[2] = {blocks_.depth, g_.k % blocks_.depth};
    const int64_t widths[2] = {blocks_.width, g_.n % blocks_.width};
    for (Worker& worker : workers_) {
      worker.inputs.resize(expression.inputs.size());
      for (size_t i = 0; i < worker.kernels.size(); ++i) {
        const int64_t depth = depths[i / 2];
        const int64_t width = widths[i % 2];
        const bool is_used = depth > 0 && width > 0 && width <= g_.n;
        if (is_used) COTAN_RETURN_IF_ERROR(MakeBlock(expression, depth, width, maker, expr, worker.kernels[i]));
      }
    }
    scratch_bytes_ = (block_bytes_ + kernel_bytes_) * workers_.size();
    return absl::OkStatus();
  }

  // Sets the inputs of the expression in the next run.
  void SetExpressionInputs(void* const* inputs) { expression_inputs_ = inputs; }

  absl::Status Run(const KernelArgs& args) override {
    const auto threads = static_cast<int>(workers_.size());
    const int64_t grain = (num_columns_ + threads - 1) / threads;
    for (Worker& worker : workers_) worker.status = absl::OkStatus();
    ParallelForWorker(threads, num_columns_, grain, [&](int number, int64_t begin, int64_t end) {
      const ScopedThreads one_thread(1);
      Worker& worker = workers_[static_cast<size_t>(number)];
      char* const scratch =
          static_cast<char*>(args.scratch) + (block_bytes_ + kernel_bytes_) * static_cast<size_t>(number);
      for (int64_t k = 0; k < g_.k; k += blocks_.depth) {
        for (int64_t i = begin; i < end && worker.status.ok(); ++i) {
          worker.status = RunBlock(args, k, i * blocks_.width, scratch, worker);
        }
      }
    });
    for (const Worker& worker : workers_) COTAN_RETURN_IF_ERROR(worker.status);
    return absl::OkStatus();
  }

 private:
  // The kernels of one size of a block.
  struct Block {
    std::unique_ptr<Kernel> expression;
    std::unique_ptr<Kernel> first;  // of the first part of a sum
    std::unique_ptr<Kernel> next;   // adds to the result
  };

  struct Worker {
    std::array<Block, 4> kernels;  // whole, last columns, last rows, last rows and columns
    std::vector<void*> inputs;     // of the expression
    absl::Status status;
  };

  absl::Status MakeBlock(const KernelRequest& expression, int64_t depth, int64_t width, const ProductMaker& maker,
                         KernelFactory expr, Block& block) {
    const BlockExpression part = ExpressionOfBlock(blocks_, expression, depth, width);
    COTAN_ASSIGN_OR_RETURN(block.expression, expr(part.Request()));
    MatmulGeometry geometry = g_;
    geometry.k = depth;
    geometry.n = width;
    geometry.b = blocks_.by_columns ? MatrixStrides{1, blocks_.RowStride(depth)} : MatrixStrides{width, 1};
    const bool is_first = depth == std::min(blocks_.depth, g_.k);
    const bool is_next = depth != g_.k;
    if (is_first) {
      COTAN_ASSIGN_OR_RETURN(block.first, maker.make(geometry, addend_, DType::kFloat32, 1));
    }
    if (is_next) {
      COTAN_ASSIGN_OR_RETURN(block.next, maker.make(geometry, Addend::kInOutput, DType::kFloat32, 1));
    }
    for (const std::unique_ptr<Kernel>* kernel : {&block.expression, &block.first, &block.next}) {
      if (*kernel != nullptr)
        kernel_bytes_ = std::max(kernel_bytes_, RoundUp((*kernel)->scratch_bytes(), kScratchAlignment));
    }
    return absl::OkStatus();
  }

  // Adds the products of the block at row `k` and column `n` of the operand.
  absl::Status RunBlock(const KernelArgs& args, int64_t k, int64_t n, char* scratch, Worker& worker) const {
    const bool is_last_k = k + blocks_.depth > g_.k;
    const bool is_last_n = n + blocks_.width > g_.n;
    const Block& block = worker.kernels[(is_last_k ? size_t{2} : 0) + (is_last_n ? size_t{1} : 0)];
    for (size_t i = 0; i < worker.inputs.size(); ++i) {
      worker.inputs[i] = static_cast<char*>(expression_inputs_[i]) + k / blocks_.k.unit * k_steps_[i] +
                         n / blocks_.n.unit * n_steps_[i];
    }
    void* operand = scratch;
    COTAN_RETURN_IF_ERROR(block.expression->Run({worker.inputs.data(), &operand, scratch + block_bytes_}));
    void* inputs[3] = {static_cast<float*>(args.inputs[0]) + k * g_.a.column, operand, nullptr};
    if (addend_ == Addend::kBias) inputs[2] = static_cast<float*>(args.inputs[2]) + n;
    void* output = static_cast<float*>(args.outputs[0]) + n;
    const std::unique_ptr<Kernel>& product = k == 0 ? block.first : block.next;
    return product->Run({inputs, &output, scratch + block_bytes_});
  }

  const OperandBlocks blocks_;
  MatmulGeometry g_;
  const Addend addend_;
  int64_t num_columns_ = 0;       // of blocks
  std::vector<int64_t> k_steps_;  // per input of the expression: bytes from one unit to the next
  std::vector<int64_t> n_steps_;
  size_t block_bytes_ = 0;
  size_t kernel_bytes_ = 0;  // scratch of a block's kernels
  std::vector<Worker> workers_;
  void* const* expression_inputs_ = nullptr;
};

// The steps of the product, of which one is the product in blocks.
class ComputedOperandProduct final : public Kernel {
 public:
  ComputedOperandProduct(std::unique_ptr<Kernel> steps, BlockedProduct* product, size_t product_inputs)
      : steps_(std::move(steps)), product_(product), product_inputs_(product_inputs) {
    scratch_bytes_ = steps_->scratch_bytes();
  }

  absl::Status Run(const KernelArgs& args) override {
    void* inputs[3] = {args.inputs[0], nullptr, product_inputs_ > 2 ? args.inputs[1] : nullptr};
    product_->SetExpressionInputs(args.inputs + product_inputs_ - 1);
    return steps_->Run({inputs, args.outputs, args.scratch});
  }

 private:
  const std::unique_ptr<Kernel> steps_;
  BlockedProduct* const product_;  // one of the steps
  const size_t product_inputs_;    // with the computed operand
};

}  // namespace

bool TakesComputedOperand(const ComputedOperandRequest& request) { return FindOperandBlocks(request).has_value(); }

absl::StatusOr<std::unique_ptr<Kernel>> MakeComputedOperandProduct(const ComputedOperandRequest& request,
                                                                   const ProductMaker& maker, KernelFactory expr) {
  std::optional<OperandBlocks> blocks = FindOperandBlocks(request);
  if (!blocks) return absl::InvalidArgumentError("the right operand of the product cannot be computed in blocks");
  BlockedProduct* product = nullptr;
  const auto make = [&](const MatmulGeometry& geometry, Addend addend, DType /*dtype*/,
                        int threads) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    blocks->geometry = geometry;  // the left matrix may have been packed
    auto kernel = std::make_unique<BlockedProduct>(*blocks, request.expression, addend, threads);
    COTAN_RETURN_IF_ERROR(kernel->MakeKernels(request.expression, maker, expr));
    product = kernel.get();
    return kernel;
  };
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> steps, MakeMatmulSteps(request.product, {make, maker.takes_bias}));
  return std::make_unique<ComputedOperandProduct>(std::move(steps), product, request.product.inputs.size());
}

}  // namespace cotan::cpu

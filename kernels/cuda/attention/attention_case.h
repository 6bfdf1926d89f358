// SPDX-License-Identifier: Apache-2.0

// Cases of the tests of attention: operands of given sizes and layouts, and runs compared with the reference kernels.
#ifndef COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_CASE_H_
#define COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_CASE_H_

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/testing/host_tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda {

struct AttentionCase {
  enum class Layout {
    kRowMajor,
    kHeadsInside,  // [B, L, H, E] in memory, as after a projection
    kRandom,       // any order of dimensions, gaps, expanded inputs
  };
  enum class Bias { kNone, kFull, kBroadcast };

  DType dtype = DType::kFloat32;
  int64_t batch = 1;
  int64_t heads = 2;
  int64_t queries = 17;
  int64_t keys = 33;
  int64_t size = 8;
  int64_t value_size = 8;
  bool is_causal = false;
  Bias bias = Bias::kNone;
  Layout layout = Layout::kRowMajor;
  double scale = 0.3;

  std::string ToString() const;
};

// The operands of one case.
class AttentionOperands {
 public:
  AttentionOperands(const AttentionCase& c, std::mt19937_64& random);

  // Returns {q, k, v}, and the bias if there is one.
  std::vector<cotan::testing::HostTensor*> ForwardInputs();
  // Returns {grad, q, k, v, result, logsumexp}, and the bias. Needs MakeExpected().
  std::vector<cotan::testing::HostTensor*> BackwardInputs();

  // Computes the results of the reference kernels: result and logsumexp, and the gradients.
  absl::Status MakeExpected();

  serialization::Op ForwardOp() const;
  serialization::Op BackwardOp() const;

  cotan::testing::HostTensor q, k, v, bias, grad;
  cotan::testing::HostTensor result, logsumexp, grad_q, grad_k, grad_v;  // of the reference

 private:
  AttentionCase case_;
};

// Runs the forward or the backward on fresh outputs with the layouts of the reference's, and returns the largest error
// of an output in units of its eps (ErrorInUnits()). If `outputs` is not null, it gets the outputs.
absl::StatusOr<double> RunForward(AttentionOperands& operands, const testing::RunOptions& options = {},
                                  std::vector<cotan::testing::HostTensor>* outputs = nullptr,
                                  testing::RunResult* run = nullptr);
absl::StatusOr<double> RunBackward(AttentionOperands& operands, const testing::RunOptions& options = {},
                                   std::vector<cotan::testing::HostTensor>* outputs = nullptr,
                                   testing::RunResult* run = nullptr);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_CASE_H_

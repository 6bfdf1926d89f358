// SPDX-License-Identifier: Apache-2.0

#include "examples/chars/writer.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/philox.h"
#include "base/status_macros.h"
#include "examples/chars/sizes.h"
#include "examples/chars/text.h"
#include "kernels/cpu/register_cpu.h"

namespace cotan::chars {
namespace {

// Returns `result` on the host. InvalidArgument: it is not logits of a batch.
absl::StatusOr<Tensor> LogitsOf(const Tensor& result) {
  const int64_t sizes[] = {kBatch * kContext, kVocabulary};
  if (result.dtype() == DType::kFloat32 && result.sizes() == absl::MakeConstSpan(sizes)) return result.ToHost();
  return absl::InvalidArgumentError(absl::StrCat("logits are ", result.ToString(), " instead of f32[", sizes[0], ",",
                                                 sizes[1], "]; compile examples/chars without --precision"));
}

}  // namespace

absl::StatusOr<Writer> Writer::Create(const std::string& artifact, int threads) {
  Writer writer;
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(artifact));
  SessionOptions options;
  options.kernels = &CpuKernels();
  options.threads = threads;
  COTAN_ASSIGN_OR_RETURN(writer.session_, Session::Create(program, options));
  COTAN_ASSIGN_OR_RETURN(writer.train_step_, writer.session_->FindMethod("train_step"));
  COTAN_ASSIGN_OR_RETURN(writer.eval_, writer.session_->FindMethod("eval"));
  writer.step_results_.resize(2);
  writer.eval_results_.resize(1);
  COTAN_ASSIGN_OR_RETURN(writer.inputs_, Tensor::Zeros(DType::kInt64, {kBatch, kContext}));
  COTAN_ASSIGN_OR_RETURN(writer.targets_, Tensor::Zeros(DType::kInt64, {kBatch * kContext}));
  return writer;
}

absl::StatusOr<float> Writer::Train(absl::string_view text, uint64_t seed, int64_t step) {
  FillBatch(text, kContext, seed, static_cast<uint64_t>(step),
            absl::MakeSpan(inputs_.data<int64_t>(), kBatch * kContext),
            absl::MakeSpan(targets_.data<int64_t>(), kBatch * kContext));
  COTAN_RETURN_IF_ERROR(session_->Run(train_step_, {inputs_, targets_}, absl::MakeSpan(step_results_)));
  return step_results_[1].Item<float>();
}

// AdamW counts its updates.
absl::StatusOr<int64_t> Writer::StepsDone() const {
  COTAN_ASSIGN_OR_RETURN(const Tensor updates, session_->State("optimizer.step"));
  COTAN_ASSIGN_OR_RETURN(const double count, updates.Item<double>());
  return static_cast<int64_t>(count);
}

absl::StatusOr<std::string> Writer::Continue(absl::string_view prompt, int64_t count, double temperature,
                                             uint64_t seed) {
  std::string text(prompt);
  for (int64_t i = 0; i < count; ++i) {
    const size_t seen = std::min(text.size(), static_cast<size_t>(kContext));
    const absl::string_view context = absl::string_view(text).substr(text.size() - seen);
    // Only the first row is used; attention is causal, so what stands behind
    // the context does not matter.
    int64_t* row = inputs_.data<int64_t>();
    for (size_t t = 0; t < seen; ++t) row[t] = static_cast<uint8_t>(context[t]);
    COTAN_RETURN_IF_ERROR(session_->Run(eval_, {inputs_}, absl::MakeSpan(eval_results_)));
    COTAN_ASSIGN_OR_RETURN(const Tensor logits, LogitsOf(eval_results_[0]));
    const float* last = logits.data<float>() + (seen - 1) * kVocabulary;
    const float uniform = UniformFloat(Philox(seed, static_cast<uint64_t>(i)).lane[0]);
    text += static_cast<char>(Sample(absl::MakeConstSpan(last, kVocabulary), temperature, uniform));
  }
  return text;
}

}  // namespace cotan::chars

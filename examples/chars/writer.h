// SPDX-License-Identifier: Apache-2.0

// Training on a text and continuing it, on the runtime alone.
#ifndef COTAN_EXAMPLES_CHARS_WRITER_H_
#define COTAN_EXAMPLES_CHARS_WRITER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/session.h"

namespace cotan::chars {

// A session of the chars artifact with its batch. Movable, not thread-safe.
class Writer {
 public:
  // Loads the artifact. `threads` 0 is the runtime's choice. Errors are the
  // runtime's.
  static absl::StatusOr<Writer> Create(const std::string& artifact, int threads);

  // Runs one step on sequences that depend on `seed` and `step` alone; returns the loss in nats per
  // byte. text.size() > kContext.
  absl::StatusOr<float> Train(absl::string_view text, uint64_t seed, int64_t step);

  // Returns the number of steps in the session's state, those before a checkpoint included.
  absl::StatusOr<int64_t> StepsDone() const;

  // Returns `prompt` and `count` further bytes, drawn as Sample() does with uniform draws from the
  // Philox stream `seed`. `prompt` is not empty.
  absl::StatusOr<std::string> Continue(absl::string_view prompt, int64_t count, double temperature, uint64_t seed);

  Session& session() { return *session_; }

 private:
  Writer() = default;

  std::optional<Session> session_;  // always set after Create()
  MethodHandle train_step_, eval_;
  Tensor inputs_, targets_;           // one batch
  std::vector<Tensor> step_results_;  // logits, loss
  std::vector<Tensor> eval_results_;  // logits
};

}  // namespace cotan::chars

#endif  // COTAN_EXAMPLES_CHARS_WRITER_H_

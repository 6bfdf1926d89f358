// SPDX-License-Identifier: Apache-2.0

// Bytes of a text as training data, and sampling from predictions.
#ifndef COTAN_EXAMPLES_CHARS_TEXT_H_
#define COTAN_EXAMPLES_CHARS_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cotan::chars {

// Returns the bytes of the file. NotFound: it cannot be opened. DataLoss: it cannot be read.
// InvalidArgument: it has fewer than `min_bytes` bytes. Messages name it.
absl::StatusOr<std::string> ReadText(const std::string& path, size_t min_bytes);

// Sequences of `context` bytes from random places of the text, which depend on
// `seed` and `step` alone: inputs[b * context + t] is a byte and
// targets[b * context + t] the one behind it. Both spans have equal sizes, a
// multiple of `context`; text.size() > context.
void FillBatch(absl::string_view text, int64_t context, uint64_t seed, uint64_t step, absl::Span<int64_t> inputs,
               absl::Span<int64_t> targets);

// Draws an index with probability proportional to exp(logit / temperature);
// temperature 0 takes the largest. `uniform` is in [0, 1). logits not empty.
int64_t Sample(absl::Span<const float> logits, double temperature, float uniform);

}  // namespace cotan::chars

#endif  // COTAN_EXAMPLES_CHARS_TEXT_H_

// SPDX-License-Identifier: Apache-2.0

// Facts about a call, of LibTorch eager, of Cotan, or from a golden file.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_CALL_FACTS_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_CALL_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/golden.h"

namespace cotan::conformance {

// A tensor. For None and for a number all other members have their defaults.
struct TensorFacts {
  bool is_none = false;
  std::optional<double> number;
  std::string dtype;  // "float32"
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  bool requires_grad = false;
  bool is_leaf = false;
  // is_leaf after grad_fn was read: a view whose base was written gets its new grad_fn only then.
  // Unset: unknown.
  std::optional<bool> is_leaf_when_asked;
  bool is_view = false;
  // Elements in row-major order; two values for each complex element.
  std::vector<double> values;
};

// Pairs of "in0", "out2".
using NamePairs = std::vector<std::pair<std::string, std::string>>;

struct CallFacts {
  std::vector<TensorFacts> outputs;
  std::vector<TensorFacts> inputs_after;
  std::vector<bool> version_bumped;  // by input
  bool grad_mode_after = false;
  NamePairs storage_alias_pairs;
  NamePairs same_object_pairs;
};

// Gradients of a loss with respect to the roots.
struct GradFacts {
  std::vector<int> loss_terms;
  struct Gradient {
    std::string dtype;
    std::vector<int64_t> sizes;
    std::vector<double> values;
  };
  std::vector<std::optional<Gradient>> root_grads;  // by root
  // Elements of the inputs, if the case compares them.
  std::vector<std::vector<double>> inputs_after_backward;
};

// Reads the object "eager" of a case in a golden file.
CallFacts ParseCallFacts(const Json& eager);
GradFacts ParseGradFacts(const Json& eager);

// Adds the differences. Values may differ by 2e-6 * max(1, |a|, |b|), with the absolute value of a
// complex number for its parts; everything else is exact. Versions are compared by whether they
// increased.
void CompareCalls(const CallFacts& actual, const CallFacts& expected, Differences& differences);
void CompareGradients(const GradFacts& actual, const GradFacts& expected, Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_CALL_FACTS_H_

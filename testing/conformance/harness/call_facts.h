// What a call did, as data: of LibTorch eager, of Cotan, or from a golden file.
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

// A tensor; or None or a number, with all other members as they are here.
struct TensorFacts {
  bool is_none = false;
  std::optional<double> number;
  std::string dtype;  // "float32"
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
  bool requires_grad = false;
  bool is_leaf = false;
  // The same once the history was asked for: a view whose base was written since
  // learns of it then. Unset: not known.
  std::optional<bool> is_leaf_when_asked;
  bool is_view = false;
  // In row-major order; two for each complex element.
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

// Gradients of a loss (README of the corpus) with respect to the roots.
struct GradFacts {
  std::vector<int> loss_terms;
  struct Gradient {
    std::string dtype;
    std::vector<int64_t> sizes;
    std::vector<double> values;
  };
  std::vector<std::optional<Gradient>> root_grads;  // by root
  // Elements of the inputs, if the case asks for them.
  std::vector<std::vector<double>> inputs_after_backward;
};

// From the object "eager" of a case.
CallFacts ParseCallFacts(const Json& eager);
GradFacts ParseGradFacts(const Json& eager);

// Values may be off by 2e-6 * max(1, |a|, |b|), where a complex number's parts are
// of its size; everything else is exact. Of versions it counts whether they grew.
void CompareCalls(const CallFacts& actual, const CallFacts& expected, Differences& differences);
void CompareGradients(const GradFacts& actual, const GradFacts& expected, Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_CALL_FACTS_H_

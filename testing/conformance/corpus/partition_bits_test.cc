// SPDX-License-Identifier: Apache-2.0

// Compares the cases of the corpus under different partitions: results, inputs and gradients have the same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "aot/partitioner/partition.h"
#include "testing/conformance/harness/compiled_case.h"
#include "testing/conformance/harness/compiled_run.h"
#include "testing/conformance/harness/conf_case.h"
#include "testing/conformance/harness/eager_run.h"

namespace cotan::conformance {
namespace {

// Bits of all values of a call and of its backward.
using Bits = std::vector<std::vector<double>>;

struct Outcome {
  absl::Status status;
  Bits bits;
};

Outcome RunWith(const ConfCase& c, const aot::PartitionOptions& partition, const EagerRun& eager) {
  const absl::StatusOr<std::string> artifact = CompileCase(c, /*keep_input_mutations=*/false, partition);
  if (!artifact.ok()) return {artifact.status(), {}};
  absl::StatusOr<CompiledCase> compiled = CompiledCase::Load(*artifact);
  if (!compiled.ok()) return {compiled.status(), {}};
  const absl::StatusOr<CompiledRun> run = compiled->Run(c);
  if (!run.ok()) return {run.status(), {}};
  Outcome outcome;
  for (const std::vector<TensorFacts>* tensors : {&run->facts.outputs, &run->facts.inputs_after}) {
    for (const TensorFacts& tensor : *tensors) outcome.bits.push_back(tensor.values);
  }
  const absl::StatusOr<GradFacts> gradients = compiled->Backward(c, *run, eager, LossTerms(c, eager));
  if (!gradients.ok()) return {gradients.status(), {}};
  for (const auto& gradient : gradients->root_grads) {
    outcome.bits.push_back(gradient.has_value() ? gradient->values : std::vector<double>());
  }
  return outcome;
}

bool SameBits(const Bits& a, const Bits& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    if (!a[i].empty() && std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(double)) != 0) return false;
  }
  return true;
}

TEST(PartitionBitsTest, CasesHaveTheSameBitsUnderEveryPartition) {
  int compared = 0;
  for (const ConfCase& c : build_table()) {
    if (!c.grad) continue;
    EagerRun eager;
    try {
      eager = RunEager(c, std::nullopt);
      BackwardEager(c, eager);
    } catch (const std::exception&) {
      continue;  // eager refuses it
    }
    const Outcome expected = RunWith(c, {.partitioner = aot::Partitioner::kDefault}, eager);
    for (const double budget : {1.0, 0.5, 0.25, 0.0}) {
      const Outcome outcome = RunWith(c, {.activation_memory_budget = budget}, eager);
      EXPECT_EQ(outcome.status, expected.status) << c.name << " under budget " << budget;
      EXPECT_TRUE(SameBits(outcome.bits, expected.bits)) << c.name << " under budget " << budget;
    }
    compared += expected.status.ok() ? 1 : 0;
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace cotan::conformance

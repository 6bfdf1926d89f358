// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/binding_check.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace cotan::conformance {
namespace {

// "base 0 [3,3]{3,1}+4", "argument 2".
std::string InnerText(const serialization::InputBinding::InnerInput& inner) {
  if (!inner.has_base_view()) return absl::StrCat("argument ", inner.argument());
  const serialization::TensorGeometry& geometry = inner.base_view().geometry();
  const std::vector<std::string> sizes(geometry.sizes().begin(), geometry.sizes().end());
  const std::vector<std::string> strides(geometry.strides().begin(), geometry.strides().end());
  return absl::StrCat("base ", inner.base_view().base(), " ", Describe(sizes), Describe(strides), "+",
                      geometry.offset().empty() ? "0" : geometry.offset());
}

std::string InnerText(const Json& inner) {
  if (inner.is_number()) return absl::StrCat("argument ", inner.get<int>());
  return absl::StrCat("base ", inner["base"].get<int>(), " ", Describe(inner["size"].get<std::vector<int64_t>>()),
                      Describe(inner["stride"].get<std::vector<int64_t>>()), "+", inner["offset"].get<int>());
}

}  // namespace

void CompareDuplicates(const serialization::InputBinding& binding, const Json& golden, int num_inputs, Differences& d) {
  std::vector<int> expected;
  if (!golden.is_null()) expected = golden["add_dupe_map"].get<std::vector<int>>();
  const std::vector<int> actual(binding.add_dupe_map().begin(), binding.add_dupe_map().end());
  d.Expect("add_dupe_map", actual, expected);
}

void CompareSyntheticBases(const serialization::InputBinding& binding, const Json& golden, Differences& d) {
  const bool has_bases = !golden.is_null() && !golden["info"].is_null();
  std::vector<std::string> expected;
  std::vector<int> expected_metadata_mutations;
  if (has_bases) {
    for (const Json& inner : golden["info"]["inner_args"]) expected.push_back(InnerText(inner));
    expected_metadata_mutations = golden["aliased_arg_idx_with_metadata_mutations"].get<std::vector<int>>();
  }
  std::vector<std::string> actual;
  for (const auto& inner : binding.inner_inputs()) actual.push_back(InnerText(inner));
  d.Expect("inner_inputs", actual, expected);
  d.Expect("num_bases", static_cast<int>(binding.num_bases()), has_bases ? golden["info"]["num_bases"].get<int>() : 0);
  const auto& mutated = binding.aliased_inputs_with_metadata_mutations();
  d.Expect("aliased_inputs_with_metadata_mutations", std::vector<int>(mutated.begin(), mutated.end()),
           expected_metadata_mutations);
  for (int i = 0; i < binding.bases_size() && has_bases; ++i) {
    const Json& base = golden["info"]["outer_args"][static_cast<size_t>(i)];
    d.Expect(absl::StrCat("base ", i, ".requires_grad"), binding.bases(i).requires_grad(),
             base["requires_grad"].get<bool>());
    d.Expect(absl::StrCat("base ", i, ".is_leaf"), binding.bases(i).is_leaf(), base["is_leaf"].get<bool>());
  }
}

}  // namespace cotan::conformance

// SPDX-License-Identifier: Apache-2.0

// Loads .pt2 archives, and traces small models among those that were accepted. LibTorch's ops do not claim to be safe
// for any argument: a model is traced if it has the ops of the seeds only.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/aotautograd/tracer.h"
#include "aot/frontend/module.h"
#include "aot/frontend/pt2/archive_builder.h"
#include "aot/frontend/pt2/exported_program.h"
#include "aot/frontend/pt2/model.h"
#include "base/crc32c.h"
#include "gtest/gtest.h"
#include "testing/fuzz/archive_mutator.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/zip_file.h"

namespace cotan::testing {
namespace {

using aot::pt2::Graph;
using aot::pt2::Model;
using aot::pt2::NamedArgument;
using aot::pt2::Node;

constexpr int64_t kMaxElements = 10'000;  // of all examples together
constexpr rlim_t kMaxBytes = rlim_t{1} << 30;

std::string PathOf(absl::string_view name) { return absl::StrCat(::testing::TempDir(), "/", getpid(), "_", name); }

#if defined(__has_feature)  // clang
constexpr bool kSanitized = __has_feature(address_sanitizer);
#elif defined(__SANITIZE_ADDRESS__)  // GCC
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Limits the memory that the process may allocate to what it has and a GiB. AddressSanitizer itself needs more;
// libFuzzer has a limit of its own.
void LimitMemory() {
  if (kSanitized) return;
  int64_t pages[6] = {};  // the last: of the heap and of private mappings
  std::ifstream file("/proc/self/statm");
  for (int64_t& number : pages) file >> number;
  const rlim_t limit = static_cast<rlim_t>(pages[5]) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kMaxBytes;
  const rlimit limits = {limit, limit};
  Require(setrlimit(RLIMIT_DATA, &limits) == 0, "memory can be limited");
}

// Returns the elements of all examples, or a number above kMaxElements.
int64_t ExampleElements(const Model& model) {
  std::vector<int64_t> hints;
  for (const aot::pt2::Symbol& symbol : model.program().symbols) {
    hints.push_back(symbol.hint.value_or(std::max<int64_t>(symbol.min, 1)));
  }
  int64_t total = 0;
  for (const SymIntVector& sizes : model.InputSizes()) {
    int64_t elements = 1;
    for (const SymInt& size : sizes) {
      const absl::StatusOr<int64_t> value = size.Evaluate(hints);
      if (!value.ok() || *value < 0 || *value > kMaxElements) return kMaxElements + 1;
      elements *= *value;
      if (elements > kMaxElements) return elements;
    }
    total += elements;
  }
  return total;
}

// Adds the ops of a graph and of those in it.
void CollectTargets(const Graph& graph, absl::flat_hash_set<std::string>& targets) {
  for (const Node& node : graph.nodes) {
    targets.insert(node.target);
    for (const NamedArgument& input : node.inputs) {
      if (const auto* inner = std::get_if<aot::pt2::Subgraph>(&input.value)) CollectTargets(*inner->graph, targets);
      const auto* text = std::get_if<std::string>(&input.value);
      if (text != nullptr && absl::StartsWith(*text, "torch.ops.")) targets.insert(*text);
    }
  }
}

// Returns the ops of the seeds.
const absl::flat_hash_set<std::string>& KnownTargets() {
  static const auto& targets = *[] {
    auto* const known = new absl::flat_hash_set<std::string>();
    for (const std::string& seed : SeedInputs()) {
      const std::string path = PathOf("known.pt2");
      std::ofstream(path, std::ios::binary) << seed;
      const absl::StatusOr<Model> model = Model::Load(path);
      Require(model.ok(), model.status().ToString());
      CollectTargets(model->program().graph, *known);
    }
    return known;
  }();
  return targets;
}

bool HasKnownTargets(const Model& model) {
  absl::flat_hash_set<std::string> targets;
  CollectTargets(model.program().graph, targets);
  return std::all_of(targets.begin(), targets.end(),
                     [](const auto& target) { return KnownTargets().contains(target); });
}

void TraceModel(const Model& model) {
  const auto examples = model.ExampleInputs();
  if (!examples.ok()) return;
  const auto module = aot::TraceableModule::FromFunction(model.function(), model.states(), {});
  if (!module.ok()) return;
  (void)aot::Trace(module->forward(), module->states(), *examples, {.backward = aot::TraceOptions::Backward::kOutputs})
      .ok();  // traced or refused
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  Require(file.good(), absl::StrCat("there is ", path));
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

std::vector<ZipEntry> Entries(const aot::pt2::ArchiveFiles& files) {
  std::vector<ZipEntry> entries;
  for (const auto& [name, content] : files) entries.push_back({name, content});
  return entries;
}

// The same model in the archives of older versions: of torch 2.8, which has one pickle for all weights, and of torch
// 2.6.
std::vector<std::string> OlderArchives() {
  const std::string program = aot::pt2::SmallModel()[0].second;
  const std::string weights = WriteZip(Entries(aot::pt2::SavedTensors({{"fc.weight", {4, 3}}})));
  const std::string constants = WriteZip(Entries(aot::pt2::SavedTensors({{"count", {}}})));
  return {WriteZip({{"m/models/model.json", program},
                    {"m/data/weights/model.pt", weights},
                    {"m/data/constants/model.pt", constants},
                    {"m/archive_format", "pt2"},
                    {"m/byteorder", "little"}}),
          WriteZip({{"serialized_exported_program.json", program},
                    {"serialized_state_dict.pt", weights},
                    {"serialized_constants.pt", constants}})};
}

}  // namespace

bool RunInput(absl::string_view input) {
  static const bool limited = (KnownTargets(), LimitMemory(), true);
  (void)limited;
  const std::string path = PathOf("model.pt2");
  std::ofstream(path, std::ios::binary) << input;
  const absl::StatusOr<Model> model = Model::Load(path);
  if (!model.ok()) {
    Require(absl::StrContains(model.status().message(), path), "an error names the archive");
    return false;
  }
  // A trace takes milliseconds: one of four is made.
  if (ExampleElements(*model) <= kMaxElements && Crc32c(input) % 4 == 0 && HasKnownTargets(*model)) TraceModel(*model);
  return true;
}

std::string MutateInput(absl::string_view input, std::mt19937_64& random) { return MutateArchive(input, random); }

std::vector<std::string> SeedInputs() {
  std::vector<std::string> seeds = OlderArchives();
  seeds.push_back(WriteZip(Entries(aot::pt2::SmallModel())));
  for (const char* const name : {"checked", "checked_functional", "number_sizes", "numbers"}) {
    seeds.push_back(ReadAll(absl::StrCat("aot/frontend/pt2/testdata/", name, ".pt2")));
  }
  return seeds;
}

}  // namespace cotan::testing

// SPDX-License-Identifier: Apache-2.0

// Compares random programs with eager; see --help.
#include <ATen/Parallel.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "testing/conformance/fuzz/generate_program.h"
#include "testing/conformance/fuzz/random_program.h"
#include "testing/conformance/fuzz/shrink_program.h"
#include "testing/conformance/harness/modes.h"

ABSL_FLAG(uint64_t, seed, 1, "seed of the first program; each further program adds 1");
ABSL_FLAG(int, count, 300, "number of programs");
ABSL_FLAG(bool, plain, false, "only views, writes and inputs that share memory, in f32; any refusal is a failure");
ABSL_FLAG(int, max_failures, 10, "stop after this many failures");
ABSL_FLAG(bool, refusals_fail, false, "count every refusal as a failure, even a documented one");
ABSL_FLAG(bool, shrink, true, "reduce failing programs to a minimal one");

namespace cotan::conformance {
namespace {

// Messages of refusals that docs/conformance.md documents.
constexpr absl::string_view kRefusals[] = {
    // Complex numbers are pairs of real ones, whose bits are not those of the elements.
    "aten.view.dtype of complex numbers: it is not supported",
    // The reference refuses views of all dtypes.
    "input mutations on complex views with different dtypes are not supported",
    "input mutations on differentiable views with different dtypes are not supported",
    // Graph values have elements, but no storage.
    "it accesses memory outside the elements of its argument",
    // The elements would have to be written to the input's previous storage; the reference refuses
    // it, too.
    "Encountered a set_ on a graph input, but the input has other mutations",
    // Autograd has two leaves here: one for each storage.
    "it has a gradient with respect to the storage that it had before set_",
    // The storage passed to `set_` must not change; the reference refuses it, too.
    "cannot mutate tensors with frozen storage",
    // An element would be written several times, unless `as_strided_` then excludes the others.
    "a write to windows that overlap (unfold of size",
    // As above, for an argument whose elements share memory.
    "refers to a single memory location. Please clone() the tensor before performing the operation. "
    "(aten.as_strided_scatter.default)",
    // The result of eager mode depends on when the view's grad_fn is read.
    "final view (as_strided_) does not contain elements of input",
    // The base that the gradient belongs to is not part of the program.
    "is written, and its final view does not contain elements of a result",
    // The argument would need two gradients: as the old and as the new leaf.
    "is NEW_LEAF, but the input requires grad at entry",
    // A detached alias that shares written memory with another argument is a view inside of the program.
    "tracing 'forward': Can't detach views in-place",
    // One gradient for the base, none for the part.
    "it is made to require grad (requires_grad_) and shares memory that is written to with another input",
    "they are different tensors in autograd: pass views of one tensor, or return the result instead",
    "it is detached from another input, whose memory it shares, and written with what requires grad",
};

// Returns the entry of `kRefusals` that the difference contains, or an empty string.
absl::string_view RefusalIn(const std::string& difference) {
  const auto* found =
      absl::c_find_if(kRefusals, [&](absl::string_view text) { return absl::StrContains(difference, text); });
  return found == std::end(kRefusals) ? absl::string_view() : *found;
}

// Returns the difference without names and numbers of one program.
std::string KindOf(const std::string& difference) {
  std::string kind;
  for (const char c : difference.substr(0, 90)) {
    if (absl::ascii_isalpha(c)) kind.push_back(c);
  }
  return kind;
}

Differences DifferencesOf(const RandomProgram& program) {
  Differences differences;
  try {
    CheckProgram(CaseOf(program), differences);
  } catch (const std::exception& e) {
    differences.Add(absl::StrCat("threw: ", e.what()));
  }
  return differences;
}

void ReportFailure(const RandomProgram& program) {
  const std::string kind = KindOf(DifferencesOf(program).first());
  const RandomProgram small =
      absl::GetFlag(FLAGS_shrink)
          ? Shrink(program,
                   [&](const RandomProgram& smaller) { return KindOf(DifferencesOf(smaller).first()) == kind; })
          : program;
  std::printf("FAIL seed %llu: %s\n%s\n", static_cast<unsigned long long>(program.seed),
              DifferencesOf(small).first().c_str(), ToText(small).c_str());
  std::fflush(stdout);
}

int Run() {
  at::set_num_threads(1);
  const uint64_t first = absl::GetFlag(FLAGS_seed);
  const int count = absl::GetFlag(FLAGS_count);
  std::printf("programs of seeds %llu to %llu\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + static_cast<uint64_t>(count) - 1));
  int passed = 0;
  int failed = 0;
  int refused = 0;
  std::map<absl::string_view, int> refusals;
  const bool may_refuse = !absl::GetFlag(FLAGS_refusals_fail) && !absl::GetFlag(FLAGS_plain);
  const ProgramRange range = absl::GetFlag(FLAGS_plain) ? ProgramRange::kPlain : ProgramRange::kWide;
  for (int i = 0; i < count && failed < absl::GetFlag(FLAGS_max_failures); ++i) {
    const RandomProgram program = GenerateProgram(first + static_cast<uint64_t>(i), range);
    const std::string difference = DifferencesOf(program).first();
    if (difference.empty()) {
      ++passed;
      continue;
    }
    const absl::string_view refusal = may_refuse ? RefusalIn(difference) : absl::string_view();
    if (!refusal.empty()) {
      ++refused;
      ++refusals[refusal];
      continue;
    }
    ++failed;
    ReportFailure(program);
  }
  for (const auto& [text, times] : refusals) {
    std::printf("refused %4d times: %.*s\n", times, static_cast<int>(text.size()), text.data());
  }
  std::printf("%d refused, as documented\n%d passed, %d failed\n", refused, passed, failed);
  return failed == 0 && passed + refused == count ? 0 : 1;
}

}  // namespace
}  // namespace cotan::conformance

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("compares random programs with LibTorch eager");
  absl::ParseCommandLine(argc, argv);
  return cotan::conformance::Run();
}

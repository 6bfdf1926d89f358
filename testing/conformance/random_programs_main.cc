// Compares random programs with eager; see --help.
#include <ATen/Parallel.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "testing/conformance/modes.h"
#include "testing/conformance/random_program.h"

ABSL_FLAG(uint64_t, seed, 1, "of the first program; the following ones have the following seeds");
ABSL_FLAG(int, count, 300, "number of programs");
ABSL_FLAG(int, max_failures, 10, "stop after so many");
ABSL_FLAG(bool, shrink, true, "look for a smaller program that fails as well");

namespace cotan::conformance {
namespace {

Differences DifferencesOf(const RandomProgram& program) {
  Differences differences;
  try {
    CheckProgram(CaseOf(program), differences);
  } catch (const std::exception& e) {
    differences.Add(absl::StrCat("threw: ", e.what()));
  }
  return differences;
}

void Tell(const RandomProgram& program) {
  const RandomProgram small =
      absl::GetFlag(FLAGS_shrink)
          ? Shrink(program, [](const RandomProgram& candidate) { return !DifferencesOf(candidate).none(); })
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
  for (int i = 0; i < count && failed < absl::GetFlag(FLAGS_max_failures); ++i) {
    const RandomProgram program = GenerateProgram(first + static_cast<uint64_t>(i));
    if (DifferencesOf(program).none()) {
      ++passed;
      continue;
    }
    ++failed;
    Tell(program);
  }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 && passed == count ? 0 : 1;
}

}  // namespace
}  // namespace cotan::conformance

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("compares random programs with LibTorch eager");
  absl::ParseCommandLine(argc, argv);
  return cotan::conformance::Run();
}

// Compares random programs with eager; see --help.
#include <ATen/Parallel.h>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <sstream>
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
ABSL_FLAG(std::string, known_failures, "", "file with seeds that may fail: seed, reason in each line");
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

// By seed. An unreadable file has none, so that its failures show.
std::map<uint64_t, std::string> KnownFailures() {
  std::map<uint64_t, std::string> known;
  std::ifstream file(absl::GetFlag(FLAGS_known_failures));
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream fields(line);
    uint64_t seed = 0;
    fields >> seed >> std::ws;
    std::getline(fields, known[seed]);
  }
  return known;
}

int Run() {
  at::set_num_threads(1);
  const uint64_t first = absl::GetFlag(FLAGS_seed);
  const int count = absl::GetFlag(FLAGS_count);
  std::printf("programs of seeds %llu to %llu\n", static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(first + static_cast<uint64_t>(count) - 1));
  int passed = 0;
  int failed = 0;
  const std::map<uint64_t, std::string> known = KnownFailures();
  for (int i = 0; i < count && failed < absl::GetFlag(FLAGS_max_failures); ++i) {
    const RandomProgram program = GenerateProgram(first + static_cast<uint64_t>(i));
    const bool agrees = DifferencesOf(program).none();
    const auto reason = known.find(program.seed);
    if (reason != known.end()) {
      std::printf("known seed %llu: %s\n", static_cast<unsigned long long>(program.seed), reason->second.c_str());
      if (agrees) {
        std::printf("FAIL seed %llu: passes now, take it off the list\n",
                    static_cast<unsigned long long>(program.seed));
        ++failed;
      }
      passed += agrees ? 0 : 1;
      continue;
    }
    if (agrees) {
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

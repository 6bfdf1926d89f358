// SPDX-License-Identifier: Apache-2.0

// Reads tables of comma-separated values, with and without targets and classes.
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "runtime/training/csv_dataset.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/wire_mutator.h"

namespace cotan::testing {

bool RunInput(absl::string_view input) {
  bool is_accepted = false;
  const training::CsvOptions options[] = {
      {}, {.targets = {"-1"}}, {.delimiter = ';', .targets = {"0"}, .classes = {"cat", "dog"}}};
  for (const training::CsvOptions& option : options) is_accepted |= training::ParseCsv(input, "input", option).ok();
  return is_accepted;
}

std::string MutateInput(absl::string_view input, std::mt19937_64& random) {
  constexpr absl::string_view kTexts[] = {",", ";", "\"", "\n", "\r\n", "1e400", "nan", "-.5", "cat", "\"a,\"\"b\""};
  if (random() % 2 == 0) return MutateBytes(input, random);
  std::string mutated(input);
  const size_t place = random() % (mutated.size() + 1);
  const absl::string_view text = kTexts[random() % std::size(kTexts)];
  return mutated.replace(place, random() % 4, text.data(), text.size());
}

std::vector<std::string> SeedInputs() {
  return {"1,2,3\n4,5,6\n", "width,height,\"class, of\"\r\n1.5,-2e3,0\r\n\r\n\"3\",4,1\r\n", "cat;1;2\ndog;3;4\n"};
}

}  // namespace cotan::testing

// SPDX-License-Identifier: Apache-2.0

// Prints the methods of a program with their arguments and results, by the C interface from C++11.
//
//   describe digits.cotan
#include <cotan.h>

#include <cstdio>
#include <memory>

namespace {

struct FreeProgram {
  void operator()(cotan_program* program) const { cotan_program_free(program); }
};

int Fail() {
  std::fprintf(stderr, "describe: %s\n", cotan_last_error());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: describe FILE.cotan\n");
    return 2;
  }
  cotan_program* loaded = nullptr;
  if (cotan_program_load(argv[1], &loaded) != COTAN_OK) return Fail();
  const std::unique_ptr<cotan_program, FreeProgram> program(loaded);
  for (size_t m = 0; m < cotan_program_num_methods(loaded); ++m) {
    cotan_method_info method = COTAN_METHOD_INFO_INIT;
    if (cotan_program_method(loaded, m, &method) != COTAN_OK) return Fail();
    std::printf("%s\n", method.name);
    for (size_t i = 0; i < method.num_inputs; ++i) {
      cotan_value_info value = COTAN_VALUE_INFO_INIT;
      if (cotan_program_input(loaded, m, i, &value) != COTAN_OK) return Fail();
      std::printf("  <- %s: %s\n", value.name, value.type);
    }
    for (size_t i = 0; i < method.num_outputs; ++i) {
      cotan_value_info value = COTAN_VALUE_INFO_INIT;
      if (cotan_program_output(loaded, m, i, &value) != COTAN_OK) return Fail();
      std::printf("  -> %s: %s\n", value.name, value.type);
    }
  }
  return 0;
}

// SPDX-License-Identifier: Apache-2.0

// Writes a program with effects to a file: effect_program FILE
#include <cstdio>
#include <fstream>
#include <string>

#include "capi/effect_program.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: effect_program FILE\n");
    return 2;
  }
  const std::string bytes = cotan::capi::EffectProgramBytes();
  std::ofstream file(argv[1], std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file.good() ? 0 : 1;
}

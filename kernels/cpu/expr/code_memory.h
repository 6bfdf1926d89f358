// SPDX-License-Identifier: Apache-2.0

// Memory of generated machine code.
#ifndef COTAN_KERNELS_CPU_EXPR_CODE_MEMORY_H_
#define COTAN_KERNELS_CPU_EXPR_CODE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/types/span.h"

namespace cotan::cpu::expr {

// A copy of machine code that can be executed and not written. Movable; owns the memory.
class CodeMemory {
 public:
  CodeMemory() = default;
  CodeMemory(CodeMemory&& other) noexcept { *this = std::move(other); }
  CodeMemory& operator=(CodeMemory&& other) noexcept {
    std::swap(begin_, other.begin_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~CodeMemory();

  // Replaces the code by position-independent `code`. Returns false, and holds nothing, if the system refuses memory
  // for code, as some do by policy.
  bool Assign(absl::Span<const uint8_t> code);

  const uint8_t* begin() const { return begin_; }

 private:
  void Free();

  uint8_t* begin_ = nullptr;
  size_t bytes_ = 0;  // of whole pages
};

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_CODE_MEMORY_H_

// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/code_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace cotan::cpu::expr {

CodeMemory::~CodeMemory() { Free(); }

void CodeMemory::Free() {
  if (begin_ != nullptr) ::munmap(begin_, bytes_);
  begin_ = nullptr;
  bytes_ = 0;
}

bool CodeMemory::Assign(absl::Span<const uint8_t> code) {
  Free();
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t bytes = (code.size() + page - 1) / page * page;
  if (bytes == 0) return false;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  begin_ = static_cast<uint8_t*>(memory);
  bytes_ = bytes;
  std::memcpy(begin_, code.data(), code.size());
  if (::mprotect(begin_, bytes_, PROT_READ | PROT_EXEC) == 0) return true;
  Free();
  return false;
}

}  // namespace cotan::cpu::expr

// SPDX-License-Identifier: Apache-2.0

#include "base/large_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace cotan {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kUsualPage = 4096;
constexpr size_t kLargePage = size_t{2} << 20;  // where usual ones have 4096 bytes
constexpr size_t kLargeOrder = 9;               // kLargePage = kUsualPage << kLargeOrder

// Returns the contents of a short file, or nothing if it cannot be read.
std::string ReadShortFile(const char* path) {
  const int file = ::open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return "";
  char text[4096];
  const ssize_t size = ::read(file, text, sizeof(text));
  ::close(file);
  return std::string(text, static_cast<size_t>(std::max<ssize_t>(size, 0)));
}

// Returns how many large pages the system can give without moving others to make one. Reads lines such as
// "Node 0, zone   Normal   4   3   0 ...": the free blocks of 1, 2, 4, ... pages.
size_t FreeLargePages() {
  size_t pages = 0;
  for (const absl::string_view line : absl::StrSplit(ReadShortFile("/proc/buddyinfo"), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    constexpr size_t kFirstCount = 4;
    if (words.size() <= kFirstCount || words[3] == "DMA") continue;  // DMA is kept for devices
    for (size_t order = kLargeOrder; kFirstCount + order < words.size(); ++order) {
      size_t blocks = 0;
      if (absl::SimpleAtoi(words[kFirstCount + order], &blocks)) pages += blocks << (order - kLargeOrder);
    }
  }
  return pages;
}

// Returns true if the page that begins at `page`, and was touched there, is a large one.
bool IsLarge(char* page) {
  unsigned char is_resident = 0;
  return ::mincore(page + kLargePage - kUsualPage, kUsualPage, &is_resident) == 0 && (is_resident & 1) != 0;
}

}  // namespace

absl::Span<char> PopulateLargePages(absl::Span<char> memory) {
  // Making a large page from small ones takes longer than the allocation of 512 small ones, about 700 us.
  constexpr std::chrono::microseconds kLong(1000);
  if (::sysconf(_SC_PAGESIZE) != static_cast<long>(kUsualPage)) return {};
  const size_t offset = reinterpret_cast<uintptr_t>(memory.data()) % kLargePage;
  const size_t skipped = std::min(memory.size(), (kLargePage - offset) % kLargePage);
  // Others may need large pages at the same time: half of them are left.
  const size_t count = std::min((memory.size() - skipped) / kLargePage, FreeLargePages() / 2);
  char* const begin = memory.data() + skipped;
  if (count == 0 || ::madvise(begin, count * kLargePage, MADV_HUGEPAGE) != 0) return {};
  size_t done = 0;
  while (done < count) {
    char* const page = begin + done * kLargePage;
    const Clock::time_point start = Clock::now();
    *static_cast<volatile char*>(page) = 0;
    if (!IsLarge(page)) break;
    ++done;
    if (Clock::now() - start > kLong) break;
  }
  if (done < count) ::madvise(begin + done * kLargePage, (count - done) * kLargePage, MADV_NOHUGEPAGE);
  return {begin, done * kLargePage};
}

}  // namespace cotan

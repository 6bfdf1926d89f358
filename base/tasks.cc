// SPDX-License-Identifier: Apache-2.0

#include "base/tasks.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "base/large_pages.h"

namespace cotan {
namespace {

using Clock = std::chrono::steady_clock;

// Work of less than this is not worth a thread: it costs tens of microseconds if a processor is idle, and milliseconds
// if all are busy, since the caller waits for the end of what the thread has begun.
constexpr std::chrono::milliseconds kAlone(1);

// The calls of RunTasks() that have not started.
struct Queue {
  absl::FunctionRef<void(size_t i)> fn;
  const size_t count;
  std::atomic<size_t> next = 0;

  // Makes calls until all have started or, after the call that ends behind `end`, some are left.
  void Work(Clock::time_point end) {
    for (size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) {
      fn(i);
      if (Clock::now() > end) return;
    }
  }
};

void* Main(void* queue) {
  static_cast<Queue*>(queue)->Work(Clock::time_point::max());
  return nullptr;
}

// Allocates the pages of which [begin, end) has bytes.
void Populate(char* begin, char* end) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  char* const first = begin - reinterpret_cast<uintptr_t>(begin) % page;
  // One call takes three quarters of the time of a fault for each page.
  if (::madvise(first, static_cast<size_t>(end - first), MADV_POPULATE_WRITE) == 0) return;
  for (char* at = begin; at < end; at += page) *static_cast<volatile char*>(at) = 0;  // Linux before 5.14
}

}  // namespace

int UsableProcessors() {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (::sched_getaffinity(0, sizeof(usable), &usable) != 0) return 1;
  return std::max(1, CPU_COUNT(&usable));
}

void RunTasks(int threads, size_t count, absl::FunctionRef<void(size_t i)> fn) {
  Queue queue = {fn, count};
  queue.Work(threads == 1 ? Clock::time_point::max() : Clock::now() + kAlone);
  const size_t left = count - std::min(count, queue.next.load(std::memory_order_relaxed));
  std::vector<pthread_t> started;
  for (size_t i = 1; i < std::min(static_cast<size_t>(threads), left); ++i) {
    pthread_t thread;
    if (::pthread_create(&thread, nullptr, &Main, &queue) != 0) break;
    started.push_back(thread);
  }
  queue.Work(Clock::time_point::max());
  for (const pthread_t thread : started) ::pthread_join(thread, nullptr);
}

void PopulatePages(void* memory, size_t bytes) {
  constexpr size_t kMinBytes = size_t{2} << 20, kPart = size_t{1} << 20;
  if (bytes < kMinBytes) return;
  char* const begin = static_cast<char*>(memory);
  const absl::Span<char> large = PopulateLargePages({begin, bytes});
  const int processors = UsableProcessors();
  const auto populate = [&](char* from, char* to) {
    const auto size = static_cast<size_t>(to - from);
    RunTasks(processors, (size + kPart - 1) / kPart,
             [&](size_t part) { Populate(from + part * kPart, std::min(to, from + (part + 1) * kPart)); });
  };
  if (large.empty()) return populate(begin, begin + bytes);
  populate(begin, large.data());
  populate(large.data() + large.size(), begin + bytes);
}

}  // namespace cotan

// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/threading/workers.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace cotan::cpu {
namespace {

// A pause takes 5 to 50 ns.
constexpr int kPolls = 20000;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `counter` is not `old` any more.
void Await(const std::atomic<uint32_t>& counter, uint32_t old, bool polls) {
  for (int poll = 0; polls && poll < kPolls; ++poll) {
    if (counter.load(std::memory_order_acquire) != old) return;
    Pause();
  }
  counter.wait(old, std::memory_order_acquire);
}

}  // namespace

Workers::Workers() : processors_(static_cast<int>(std::thread::hardware_concurrency())) {}

void* Workers::Main(void* worker) {
  auto* self = static_cast<Worker*>(worker);
  self->workers->Work(*self);
  return nullptr;
}

void Workers::Work(Worker& worker) {
  for (uint32_t job = 0;; ++job) {
    Await(worker.posted, job, worker.member < processors_);
    if (job_ == nullptr) return;
    (*job_)(worker.member, members_);
    if (at_work_.fetch_sub(1, std::memory_order_acq_rel) == 1) at_work_.notify_one();
  }
}

int Workers::Start(int count) {
  while (static_cast<int>(workers_.size()) < count) {
    auto worker = std::make_unique<Worker>();
    worker->workers = this;
    worker->member = static_cast<int>(workers_.size()) + 1;
    if (pthread_create(&worker->thread, nullptr, &Workers::Main, worker.get()) != 0) break;
    workers_.push_back(std::move(worker));
  }
  return static_cast<int>(workers_.size());
}

void Workers::Run(int team, Job job) {
  const int working = std::min(team - 1, Start(team - 1));
  job_ = &job;
  members_ = working + 1;
  at_work_.store(static_cast<uint32_t>(working), std::memory_order_relaxed);
  for (int i = 0; i < working; ++i) {
    workers_[static_cast<size_t>(i)]->posted.fetch_add(1, std::memory_order_release);
    workers_[static_cast<size_t>(i)]->posted.notify_one();
  }
  job(0, members_);
  for (uint32_t left; (left = at_work_.load(std::memory_order_acquire)) != 0;) {
    Await(at_work_, left, members_ <= processors_);
  }
}

Workers::~Workers() {
  job_ = nullptr;
  for (const std::unique_ptr<Worker>& worker : workers_) {
    worker->posted.fetch_add(1, std::memory_order_release);
    worker->posted.notify_one();
  }
  for (const std::unique_ptr<Worker>& worker : workers_) pthread_join(worker->thread, nullptr);
}

}  // namespace cotan::cpu

// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/worker_thread.h"

#include <pthread.h>

#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace cotan::autograd {
namespace {

constexpr size_t kStackBytes = size_t{8} << 20;

// The calls of one thread. Shared by the thread and by its caller or the list of idle workers.
class Worker {
 public:
  // Runs the calls of the thread until End().
  void Serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ended_ || function_ != nullptr; });
      if (function_ == nullptr) return;
      lock.unlock();
      absl::Status status = (*function_)();
      lock.lock();
      status_ = std::move(status);
      function_ = nullptr;
      changed_.notify_all();
    }
  }

  // Has the thread run `function`, and waits for it.
  absl::Status Call(absl::FunctionRef<absl::Status()> function) {
    std::unique_lock lock(mutex_);
    function_ = &function;
    changed_.notify_all();
    changed_.wait(lock, [this] { return function_ == nullptr; });
    return std::move(status_);
  }

  // Lets the thread end.
  void End() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const absl::FunctionRef<absl::Status()>* function_ = nullptr;  // null: there is nothing to do
  absl::Status status_;
  bool ended_ = false;
};

void* Serve(void* argument) {
  const std::unique_ptr<std::shared_ptr<Worker>> worker(static_cast<std::shared_ptr<Worker>*>(argument));
  (*worker)->Serve();
  return nullptr;
}

// pthread_create() returns an error where std::thread would throw.
absl::StatusOr<std::shared_ptr<Worker>> NewWorker() {
  auto worker = std::make_shared<Worker>();
  auto argument = std::make_unique<std::shared_ptr<Worker>>(worker);
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error == 0) {
    pthread_t thread;
    error = pthread_attr_setstacksize(&attributes, kStackBytes);
    if (error == 0) error = pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (error == 0) error = pthread_create(&thread, &attributes, &Serve, argument.get());
    pthread_attr_destroy(&attributes);
  }
  if (error != 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a nested backward needs a thread, which cannot be created: ", std::strerror(error), "; nest fewer backwards"));
  }
  argument.release();  // the thread owns it
  return worker;
}

// The workers of the process that wait for a call.
class IdleWorkers {
 public:
  // Never destroyed, because threads may end later than static objects.
  static IdleWorkers& Get() {
    static IdleWorkers& workers = *new IdleWorkers;
    return workers;
  }

  // Returns a worker; null if none is idle.
  std::shared_ptr<Worker> Take() {
    const std::lock_guard lock(mutex_);
    if (workers_.empty()) return nullptr;
    std::shared_ptr<Worker> worker = std::move(workers_.back());
    workers_.pop_back();
    return worker;
  }

  // Keeps the worker, or ends its thread if there are enough.
  void Give(std::shared_ptr<Worker> worker) {
    {
      const std::lock_guard lock(mutex_);
      if (workers_.size() < size_t{kMaxIdleWorkers}) {
        workers_.push_back(std::move(worker));
        return;
      }
    }
    worker->End();
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Worker>> workers_;
};

}  // namespace

absl::Status CallOnWorker(absl::FunctionRef<absl::Status()> call) {
  std::shared_ptr<Worker> worker = IdleWorkers::Get().Take();
  if (worker == nullptr) {
    absl::StatusOr<std::shared_ptr<Worker>> made = NewWorker();
    if (!made.ok()) return made.status();
    worker = *std::move(made);
  }
  absl::Status status = worker->Call(call);
  IdleWorkers::Get().Give(std::move(worker));
  return status;
}

}  // namespace cotan::autograd

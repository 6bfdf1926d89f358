// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/testing/thread_group.h"

#include <cstddef>

#include "absl/strings/str_cat.h"

namespace cotan::testing {

class ThreadGroup::Rank final : public GroupCommunicator {
 public:
  Rank(ThreadGroup& group, int number, int size) : group_(group), number_(number), size_(size) {}

  int rank() const override { return number_; }
  int size() const override { return size_; }
  absl::StatusOr<std::vector<std::string>> Gather(absl::string_view bytes) override {
    return group_.Gather(number_, bytes);
  }
  absl::Status CheckOthers(bool needs_all) override { return group_.Check(needs_all); }

 protected:
  absl::StatusOr<std::unique_ptr<Exchange>> NewExchange(const ExchangeSpec& /*spec*/) override {
    return absl::UnimplementedError("the group has no collectives of the host");
  }

 private:
  ThreadGroup& group_;
  const int number_, size_;
};

ThreadGroup::ThreadGroup(int size) : given_(static_cast<size_t>(size)) {
  for (int r = 0; r < size; ++r) ranks_.push_back(std::make_unique<Rank>(*this, r, size));
}

ThreadGroup::~ThreadGroup() = default;

void ThreadGroup::End(int number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  error_ = absl::UnavailableError(absl::StrCat("rank ", number, " has ended"));
  changed_.notify_all();
}

void ThreadGroup::Leave(int number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  left_.Update(absl::UnavailableError(absl::StrCat("rank ", number, " has left")));
}

absl::StatusOr<std::vector<std::string>> ThreadGroup::Gather(int number, absl::string_view bytes) {
  std::unique_lock<std::mutex> lock(mutex_);
  given_[static_cast<size_t>(number)] = std::string(bytes);
  const int exchange = num_exchanges_;
  if (++num_given_ == static_cast<int>(given_.size())) {
    all_ = given_;
    num_given_ = 0;
    ++num_exchanges_;
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return num_exchanges_ != exchange || !error_.ok(); });
  if (num_exchanges_ == exchange) return error_;
  return all_;
}

absl::Status ThreadGroup::Check(bool needs_all) {
  const std::lock_guard<std::mutex> lock(mutex_);
  return error_.ok() && needs_all ? left_ : error_;
}

}  // namespace cotan::testing

// SPDX-License-Identifier: Apache-2.0

// A group of ranks that are threads of one process, for tests of devices that exchange data by themselves.
#ifndef COTAN_RUNTIME_DISTRIBUTED_TESTING_THREAD_GROUP_H_
#define COTAN_RUNTIME_DISTRIBUTED_TESTING_THREAD_GROUP_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/distributed/group_communicator.h"

namespace cotan::testing {

// Each rank's communicator is used by one thread. Collectives of the host are not supported. Thread-safe.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size);
  ~ThreadGroup();

  GroupCommunicator& rank(int number) { return *ranks_[static_cast<size_t>(number)]; }
  // Makes a rank one that has ended. The others get Unavailable with its number.
  void End(int number);
  // Makes a rank one that has left. The others get Unavailable with its number if they need all.
  void Leave(int number);

 private:
  class Rank;

  absl::StatusOr<std::vector<std::string>> Gather(int number, absl::string_view bytes);
  absl::Status Check(bool needs_all);

  std::vector<std::unique_ptr<GroupCommunicator>> ranks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status error_;              // guarded by mutex_
  absl::Status left_;               // guarded by mutex_
  std::vector<std::string> given_;  // of the present exchange, guarded by mutex_
  std::vector<std::string> all_;    // of the last exchange, guarded by mutex_
  int num_given_ = 0;               // guarded by mutex_
  int num_exchanges_ = 0;           // guarded by mutex_
};

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_DISTRIBUTED_TESTING_THREAD_GROUP_H_

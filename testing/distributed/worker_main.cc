// SPDX-License-Identifier: Apache-2.0

// One rank of a test: trains a compiled model on its part of each batch, and writes what came of it.
//
// FOLDER/RANK.log      "loss HEX" for each call that has one, then "done" or "error TEXT"
// FOLDER/RANK.outputs  the first result of the last call with results, raw
// FOLDER/RANK.STEP     a checkpoint after each step; RANK.error: after an error
#include <signal.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/distributed/mpi/mpi_communicator.h"
#include "runtime/session.h"

ABSL_FLAG(std::string, program, "", "compiled model; %r is the rank");
ABSL_FLAG(std::string, data, "", "all batches: f32 inputs, then i64 labels, raw");
ABSL_FLAG(std::vector<std::string>, sizes, {}, "of one input");
ABSL_FLAG(int64_t, batch, 1, "rows of one rank's part of a batch");
ABSL_FLAG(int64_t, steps, 1, "batches");
ABSL_FLAG(int64_t, skip, 0, "batches to leave out at first");
ABSL_FLAG(int64_t, accumulate, 0, "0: calls train_step; above 0: apply_optimizer after so many calls of accumulate");
ABSL_FLAG(std::string, load, "", "checkpoint to start from; %r is the rank");
ABSL_FLAG(std::string, out, "", "folder for the results");
ABSL_FLAG(int, end_rank, -1, "rank that is killed");
ABSL_FLAG(int64_t, end_step, -1, "before this step");
ABSL_FLAG(int64_t, end_after_us, -1, "or so long after the first step");
ABSL_FLAG(int64_t, timeout_ms, 60000, "MpiOptions.timeout");
ABSL_FLAG(std::string, watch, "",
          "ended, left: the rank --end_rank is killed, or leaves; the others run no program and return the news of it");

namespace cotan::testing {
namespace {

// Kills this process when the time has passed.
void KillAfter(int64_t microseconds) {
  sigevent event = {};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGKILL;
  timer_t timer;
  itimerspec when = {};
  when.it_value.tv_sec = microseconds / 1000000;
  when.it_value.tv_nsec = microseconds % 1000000 * 1000 + 1;
  timer_create(CLOCK_MONOTONIC, &event, &timer);
  timer_settime(timer, 0, &when, nullptr);
}

class Worker {
 public:
  Worker(Communicator& communicator, std::string log_path)
      : communicator_(communicator), log_(std::fopen(log_path.c_str(), "w")) {}
  ~Worker() { std::fclose(log_); }

  absl::Status Run() {
    COTAN_RETURN_IF_ERROR(Open());
    const int64_t skipped = absl::GetFlag(FLAGS_skip);
    for (int64_t step = skipped; step < absl::GetFlag(FLAGS_steps); ++step) {
      const bool is_victim = communicator_.rank() == absl::GetFlag(FLAGS_end_rank);
      if (is_victim && step == absl::GetFlag(FLAGS_end_step)) raise(SIGKILL);
      if (is_victim && step == skipped + 1 && absl::GetFlag(FLAGS_end_after_us) >= 0) {
        KillAfter(absl::GetFlag(FLAGS_end_after_us));
      }
      const absl::Status status = Step(step);
      if (!status.ok()) {
        COTAN_RETURN_IF_ERROR(session_->SaveCheckpoint(PathOf("error")));
        return status;
      }
      COTAN_RETURN_IF_ERROR(session_->SaveCheckpoint(PathOf(absl::StrCat(step))));
    }
    return absl::OkStatus();
  }

  void Log(const std::string& line) {
    std::fputs((line + "\n").c_str(), log_);
    std::fflush(log_);
  }

 private:
  std::string WithRank(const std::string& path) const {
    return absl::StrReplaceAll(path, {{"%r", absl::StrCat(communicator_.rank())}});
  }
  std::string PathOf(const std::string& what) const {
    return absl::StrCat(absl::GetFlag(FLAGS_out), "/", communicator_.rank(), ".", what);
  }

  absl::Status Open() {
    COTAN_ASSIGN_OR_RETURN(auto program, Program::Load(WithRank(absl::GetFlag(FLAGS_program))));
    COTAN_ASSIGN_OR_RETURN(
        Session session,
        Session::Create(program, {.kernels = &CpuKernels(), .threads = 1, .communicator = &communicator_}));
    session_ = std::make_unique<Session>(std::move(session));
    if (const std::string load = absl::GetFlag(FLAGS_load); !load.empty()) {
      COTAN_RETURN_IF_ERROR(session_->LoadCheckpoint(WithRank(load)));
    }
    std::ifstream data(absl::GetFlag(FLAGS_data), std::ios::binary);
    data_.assign(std::istreambuf_iterator<char>(data), {});
    sizes_ = {absl::GetFlag(FLAGS_batch)};
    for (const std::string& size : absl::GetFlag(FLAGS_sizes)) {
      sizes_.push_back(0);
      if (!absl::SimpleAtoi(size, &sizes_.back())) return absl::InvalidArgumentError("--sizes");
      row_ *= sizes_.back();
    }
    return absl::OkStatus();
  }

  absl::Status Step(int64_t step) {
    const int64_t batch = absl::GetFlag(FLAGS_batch);
    const int64_t rows = absl::GetFlag(FLAGS_steps) * communicator_.size() * batch;
    const int64_t first = (step * communicator_.size() + communicator_.rank()) * batch;
    auto* const inputs = reinterpret_cast<float*>(data_.data()) + first * row_;
    auto* const labels = reinterpret_cast<int64_t*>(data_.data() + rows * row_ * sizeof(float)) + first;
    COTAN_ASSIGN_OR_RETURN(const Tensor x,
                           Tensor::Borrow(absl::MakeSpan(inputs, static_cast<size_t>(batch * row_)), sizes_));
    COTAN_ASSIGN_OR_RETURN(const Tensor y, Tensor::Borrow(absl::MakeSpan(labels, static_cast<size_t>(batch)), {batch}));
    const int64_t accumulate = absl::GetFlag(FLAGS_accumulate);
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                           session_->Run(accumulate > 0 ? "accumulate" : "train_step", {x, y}));
    COTAN_ASSIGN_OR_RETURN(const float loss, results.back().Item<float>());
    Log(absl::StrFormat("loss %a", loss));
    const auto* const bytes = static_cast<const char*>(results[0].address());
    COTAN_RETURN_IF_ERROR(WriteFileAtomically(
        PathOf("outputs"), {absl::string_view(bytes, static_cast<size_t>(results[0].num_elements()) * sizeof(float))}));
    if (accumulate == 0 || (step + 1) % accumulate != 0) return absl::OkStatus();
    return session_->Run("apply_optimizer", absl::Span<const Tensor>()).status();
  }

  Communicator& communicator_;
  std::FILE* const log_;
  std::unique_ptr<Session> session_;
  std::string data_;
  std::vector<int64_t> sizes_;
  int64_t row_ = 1;  // elements of one input
};

// Waits for the news of the rank that ends, without a collective, as engines of other devices do.
absl::Status WatchOthers(MpiCommunicator& communicator) {
  if (communicator.local_rank() != communicator.rank()) return absl::InternalError("all ranks are on one machine");
  COTAN_RETURN_IF_ERROR(communicator.Gather("here").status());
  const bool leaves = absl::GetFlag(FLAGS_watch) == "left";
  if (communicator.rank() == absl::GetFlag(FLAGS_end_rank)) {
    if (!leaves) raise(SIGKILL);
    return absl::OkStatus();
  }
  absl::Status news;
  while (news.ok()) {
    absl::SleepFor(absl::Milliseconds(1));
    news = communicator.CheckOthers(/*needs_all=*/leaves);
  }
  if (leaves) COTAN_RETURN_IF_ERROR(communicator.CheckOthers(/*needs_all=*/false));
  return news;
}

int Main() {
  auto communicator = MpiCommunicator::Create({.timeout = absl::Milliseconds(absl::GetFlag(FLAGS_timeout_ms))});
  if (!communicator.ok()) {
    absl::FPrintF(stderr, "worker: %s\n", communicator.status().ToString());
    return 1;
  }
  Worker worker(**communicator, absl::StrCat(absl::GetFlag(FLAGS_out), "/", (*communicator)->rank(), ".log"));
  const absl::Status status = absl::GetFlag(FLAGS_watch).empty() ? worker.Run() : WatchOthers(**communicator);
  worker.Log(status.ok() ? "done" : absl::StrCat("error ", status.ToString()));
  return status.ok() ? 0 : 1;
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return cotan::testing::Main();
}

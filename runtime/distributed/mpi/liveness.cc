// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/mpi/liveness.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace cotan {
namespace {

// How often a rank says that it is alive.
constexpr absl::Duration kInterval = absl::Seconds(1);

// The first bytes of a connection.
struct Hello {
  uint64_t token = 0;
  int64_t rank = 0;
};

absl::Status SystemError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Waits until the socket can be read. Returns whether it can.
bool WaitToRead(int socket, absl::Time deadline) {
  const auto left = absl::ToInt64Milliseconds(std::max(deadline - absl::Now(), absl::ZeroDuration()));
  pollfd waits = {.fd = socket, .events = POLLIN, .revents = 0};
  return poll(&waits, 1, static_cast<int>(left) + 1) == 1;
}

// Reads the hello of a connection. Returns whether there is one with this token.
bool ReadHello(int socket, uint64_t token, absl::Time deadline, Hello& hello) {
  size_t size = 0;
  while (size < sizeof(hello)) {
    if (!WaitToRead(socket, deadline)) return false;
    const ssize_t got = recv(socket, reinterpret_cast<char*>(&hello) + size, sizeof(hello) - size, 0);
    if (got <= 0) return false;
    size += static_cast<size_t>(got);
  }
  return hello.token == token;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Liveness>> Liveness::Listen(int rank, int size, const std::string& host,
                                                           bool only_loopback) {
  std::unique_ptr<Liveness> made(new Liveness(rank, size));
  host.copy(made->address_.host.data(), made->address_.host.size() - 1);
  if (size == 1) return made;
  made->listening_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made->listening_ < 0) return SystemError("cannot make a socket");
  sockaddr_in local = {};
  local.sin_family = AF_INET;
  local.sin_addr.s_addr = htonl(only_loopback ? INADDR_LOOPBACK : INADDR_ANY);
  socklen_t length = sizeof(local);
  auto* const address = reinterpret_cast<sockaddr*>(&local);
  const bool listens = bind(made->listening_, address, length) == 0 && listen(made->listening_, 4) == 0 &&
                       getsockname(made->listening_, address, &length) == 0;
  if (!listens) return SystemError("cannot listen for the previous rank");
  made->address_.port = ntohs(local.sin_port);
  return made;
}

Liveness::~Liveness() {
  Close(next_);
  Close(previous_);
  if (listening_ >= 0) close(listening_);
}

void Liveness::Close(Neighbour& neighbour) {
  if (neighbour.socket < 0) return;
  // Bytes that were not read would reset the connection, and might take the last message with them.
  std::array<char, 1024> ignored;
  while (recv(neighbour.socket, ignored.data(), ignored.size(), MSG_DONTWAIT) > 0) {
  }
  close(neighbour.socket);
  neighbour.socket = -1;
}

// --- connecting ----------------------------------------------------------------------

absl::Status Liveness::Connect(absl::Span<const RankAddress> ranks, uint64_t token, absl::Duration timeout) {
  if (size_ == 1) return absl::OkStatus();
  next_.rank = (rank_ + 1) % size_;
  previous_.rank = (rank_ + size_ - 1) % size_;
  // The system accepts connections before AcceptPrevious() does, so that the ring does not wait for itself.
  COTAN_RETURN_IF_ERROR(ConnectToNext(ranks[static_cast<size_t>(next_.rank)], token));
  COTAN_RETURN_IF_ERROR(AcceptPrevious(token, absl::Now() + timeout));
  next_.heard = previous_.heard = absl::Now();
  return absl::OkStatus();
}

absl::Status Liveness::ConnectToNext(const RankAddress& next, uint64_t token) {
  const bool is_here = std::strcmp(next.host.data(), address_.host.data()) == 0;
  const char* const host = is_here ? "127.0.0.1" : next.host.data();
  const auto where = [&] { return absl::StrCat("cannot connect to rank ", next_.rank, " at ", host, ":", next.port); };
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host, absl::StrCat(next.port).c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat(where(), ": ", gai_strerror(error),
                                               "; set MpiOptions.host to an address that the other ranks can reach"));
  }
  const absl::Cleanup free_found = [found] { freeaddrinfo(found); };
  next_.socket = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (next_.socket < 0 || connect(next_.socket, found->ai_addr, found->ai_addrlen) != 0) return SystemError(where());
  const Hello hello = {.token = token, .rank = rank_};
  if (send(next_.socket, &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) return SystemError(where());
  const int on = 1;
  setsockopt(next_.socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return absl::OkStatus();
}

absl::Status Liveness::AcceptPrevious(uint64_t token, absl::Time deadline) {
  while (WaitToRead(listening_, deadline)) {
    const int accepted = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
    if (accepted < 0) continue;
    Hello hello;
    if (ReadHello(accepted, token, deadline, hello) && hello.rank == previous_.rank) {
      const int on = 1;
      setsockopt(accepted, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      previous_.socket = accepted;
      close(listening_);
      listening_ = -1;
      return absl::OkStatus();
    }
    close(accepted);  // not a rank of the group
  }
  return absl::UnavailableError(absl::StrCat("rank ", previous_.rank, " did not connect to rank ", rank_, " in time"));
}

// --- watching ------------------------------------------------------------------------

void Liveness::Poll(absl::Duration silence, absl::FunctionRef<void(const EndedRank&)> ended) {
  for (Neighbour* neighbour : {&next_, &previous_}) Read(*neighbour, ended);
  const absl::Time now = absl::Now();
  if (now - last_alive_ >= kInterval) {
    last_alive_ = now;
    Send({});
  }
  for (Neighbour* neighbour : {&next_, &previous_}) {
    if (neighbour->socket < 0 || now - neighbour->heard < silence) continue;
    Close(*neighbour);
    Note({neighbour->rank, EndedRank::Reason::kSilent, 0}, ended);
  }
}

void Liveness::Read(Neighbour& neighbour, absl::FunctionRef<void(const EndedRank&)> ended) {
  while (neighbour.socket >= 0) {
    const ssize_t got = recv(neighbour.socket, neighbour.received.data() + neighbour.num_received,
                             neighbour.received.size() - neighbour.num_received, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      Close(neighbour);
      Note({neighbour.rank, EndedRank::Reason::kEnded, 0}, ended);
      return;
    }
    neighbour.heard = absl::Now();
    neighbour.num_received += static_cast<size_t>(got);
    if (neighbour.num_received < neighbour.received.size()) continue;
    neighbour.num_received = 0;
    Message message;
    std::memcpy(&message, neighbour.received.data(), sizeof(message));
    if (message.reason == 0 || message.rank < 0 || message.rank >= size_) continue;
    Note({message.rank, static_cast<EndedRank::Reason>(message.reason), message.exchanges}, ended);
  }
}

void Liveness::Note(const EndedRank& end, absl::FunctionRef<void(const EndedRank&)> ended) {
  if (end.rank == rank_ || has_ended_[static_cast<size_t>(end.rank)]) return;
  has_ended_[static_cast<size_t>(end.rank)] = true;
  Send({static_cast<int32_t>(end.reason), end.rank, end.exchanges});
  ended(end);
}

void Liveness::Send(const Message& message) {
  for (const Neighbour* neighbour : {&next_, &previous_}) {
    // A neighbour that takes no more bytes is noticed by its silence.
    if (neighbour->socket >= 0) send(neighbour->socket, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

void Liveness::Leave(int64_t exchanges) { Send({static_cast<int32_t>(EndedRank::Reason::kLeft), rank_, exchanges}); }

}  // namespace cotan

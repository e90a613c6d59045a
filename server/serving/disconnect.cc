#include "server/serving/disconnect.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace ckn {
namespace {

// The port has the same place and byte order in the addresses of both families.
int Port(const sockaddr_storage& address) { return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port); }

std::string Name(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&address)->sin_addr, text.data(), text.size());
    return absl::StrCat("ipv4:", text.data(), ":", Port(address));
  }
  const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(&address)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&ip)) {
    inet_ntop(AF_INET, &ip.s6_addr[12], text.data(), text.size());
    return absl::StrCat("ipv4:", text.data(), ":", Port(address));
  }
  inet_ntop(AF_INET6, &ip, text.data(), text.size());
  return absl::StrCat("ipv6:%5B", text.data(), "%5D:", Port(address));
}

bool IsInternet(const sockaddr_storage& address) {
  return address.ss_family == AF_INET || address.ss_family == AF_INET6;
}

// The connections of this process to its port: their file descriptors and other ends.
std::map<int, sockaddr_storage> ConnectionsTo(int local_port) {
  std::map<int, sockaddr_storage> connections;
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end; !error && entry != end;
       entry.increment(error)) {
    int fd = -1;
    if (!absl::SimpleAtoi(entry->path().filename().string(), &fd)) continue;
    sockaddr_storage local{}, remote{};
    socklen_t local_size = sizeof local, remote_size = sizeof remote;
    // Neither of what is no socket, the latter not of one that listens.
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&local), &local_size) != 0 ||
        getpeername(fd, reinterpret_cast<sockaddr*>(&remote), &remote_size) != 0) {
      continue;
    }
    if (IsInternet(local) && IsInternet(remote) && Port(local) == local_port) connections.emplace(fd, remote);
  }
  return connections;
}

}  // namespace

int Disconnect(int local_port, std::string_view peer) {
  int count = 0;
  for (const auto& [fd, remote] : ConnectionsTo(local_port)) {
    if (!peer.empty() && Name(remote) != peer) continue;
    if (shutdown(fd, SHUT_RDWR) == 0) ++count;
  }
  return count;
}

ConnectionCount LimitConnections(int local_port, int most) {
  const std::map<int, sockaddr_storage> connections = ConnectionsTo(local_port);
  ConnectionCount count{.open = static_cast<int>(connections.size())};
  for (auto newest = connections.rbegin(); newest != connections.rend() && count.open - count.ended > most; ++newest) {
    shutdown(newest->first, SHUT_RDWR);
    ++count.ended;
  }
  return count;
}

}  // namespace ckn

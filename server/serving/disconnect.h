#pragma once

#include <string_view>

namespace ckn {

// Ends TCP connections of this process, of whoever owns them, who sees them as broken by the other side: those to its
// port `local_port`, or only the one of `peer`, as gRPC writes it, "ipv4:127.0.0.1:50000" or "ipv6:%5B::1%5D:50000".
// Returns their number. gRPC has nothing for that: it waits for the socket to take what is written already, for as long
// as a client likes that takes a little now and then.
int Disconnect(int local_port, std::string_view peer = {});

struct ConnectionCount {
  int open = 0;
  int ended = 0;  // of those
};
// Ends what is more than `most` connections to the port, of which those with the highest file descriptors: most of the
// newest ones.
ConnectionCount LimitConnections(int local_port, int most);

}  // namespace ckn

#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace ckn::testing {

// A TCP connection to a server of this machine, byte by byte: for clients that no library would be.
class RawConnection {
 public:
  // Aborts the test binary when nobody listens. `receive_buffer`: bytes that the system takes unread; 0: its default.
  explicit RawConnection(int port, int receive_buffer = 0);
  ~RawConnection();
  RawConnection(RawConnection&& other) noexcept;
  RawConnection& operator=(RawConnection&&) = delete;

  void Send(std::string_view bytes) const;
  // What HTTP/2 begins with: the preface and empty settings.
  void SendHttp2Preface() const;
  void SendHttp2Ping() const;
  // After the preface: one gRPC request, as the connection's first stream. The reply may come whole, as far as HTTP/2
  // is concerned.
  void SendGrpcRequest(std::string_view path, std::string_view message) const;

  struct Http2Frame {
    int type = 0;  // 6: PING, 7: GOAWAY
    int flags = 0;
    std::string payload;
  };
  // Waits for the next frame; nothing at the end of the connection.
  [[nodiscard]] std::optional<Http2Frame> ReadHttp2Frame() const;
  // Waits for up to 4 KiB; their number, 0 at the end of the connection.
  [[nodiscard]] std::size_t ReadSome() const;

 private:
  bool ReadExactly(std::string& bytes) const;

  int fd_ = -1;
};

}  // namespace ckn::testing

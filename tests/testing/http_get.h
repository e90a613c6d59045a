#pragma once

#include <string>

namespace ckn::testing {

struct HttpReply {
  int code = 0;  // 0: no answer
  std::string head;
  std::string body;
};

// GET http://127.0.0.1:PORT/PATH over a plain socket.
HttpReply HttpGet(int port, const std::string& path);

}  // namespace ckn::testing

#pragma once

namespace ckn {

// Turns off OpenCV's own threads and messages, once a process; call it before any other OpenCV function.
void ConfigureOpenCv();

}  // namespace ckn

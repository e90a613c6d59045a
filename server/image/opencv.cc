#include "server/image/opencv.h"

#include <opencv2/core.hpp>
#include <opencv2/core/utils/logger.hpp>

// OpenCV's core can share buffers with OpenGL and asks this function for OpenGL's. Nothing here does; with the answer
// "there is none" the program needs no X11 libraries.
extern "C" void (*glXGetProcAddressARB(const unsigned char* /*name*/))() { return nullptr; }  // NOLINT: GLX's name

namespace ckn {

void ConfigureOpenCv() {
  static const bool done = [] {
    cv::setNumThreads(0);
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace ckn

# Every library is Debian 12's own package; a missing one stops the configuration with its name.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PNG REQUIRED)
find_package(JPEG REQUIRED)
find_package(TIFF REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(Protobuf REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(Eigen3 3.4 CONFIG REQUIRED)
find_package(hwy CONFIG REQUIRED)
find_package(OpenMP REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
if(BUILD_TESTING)
  find_package(GTest CONFIG REQUIRED)
endif()

# ckn_imported_library(TARGET HEADER LIBRARY... [INCLUDE_SUFFIX DIR]) wraps a library that ships no CMake package.
function(ckn_imported_library target header)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;PATH_SUFFIXES" ${ARGN})
  add_library(${target} INTERFACE IMPORTED)
  if(header)
    string(MAKE_C_IDENTIFIER "${target}_INCLUDE_DIR" include_variable)
    find_path(${include_variable} "${header}" PATH_SUFFIXES ${ARG_PATH_SUFFIXES} REQUIRED)
    target_include_directories(${target} SYSTEM INTERFACE "${${include_variable}}")
  endif()
  foreach(library IN LISTS ARG_LIBRARIES)
    string(MAKE_C_IDENTIFIER "${target}_${library}_LIBRARY" library_variable)
    find_library(${library_variable} ${library} REQUIRED)
    target_link_libraries(${target} INTERFACE "${${library_variable}}")
  endforeach()
endfunction()

# Only these two OpenCV modules, and of them only what is used: the shared objects bring OpenBLAS and X11 along,
# imgcodecs another 150 packages.
ckn_imported_library(OpenCV::imgproc opencv2/imgproc.hpp LIBRARIES libopencv_imgproc.a libopencv_core.a tbb z
                     PATH_SUFFIXES opencv4)
target_link_options(OpenCV::imgproc INTERFACE LINKER:--gc-sections)
ckn_imported_library(WebP::webp webp/decode.h LIBRARIES webp)
# Debian's CMake package of oneDNN wants OpenCL's development files, which the program does not use.
ckn_imported_library(DNNL::dnnl oneapi/dnnl/dnnl.hpp LIBRARIES dnnl)
ckn_imported_library(CLI11::CLI11 CLI/CLI.hpp)
ckn_imported_library(Microhttpd::microhttpd microhttpd.h LIBRARIES microhttpd)
# Fortran object code without a header; server/training/lbfgsb.cc declares the entry point.
ckn_imported_library(Lbfgsb::lbfgsb "" LIBRARIES lbfgsb)
# The server's malloc; that of the C library gives memory back to the system at the end of each call and asks for it
# again at the next. The sanitizers have their own.
add_library(ckn_malloc INTERFACE)
if(NOT CKN_SANITIZE)
  ckn_imported_library(Jemalloc::jemalloc jemalloc/jemalloc.h LIBRARIES jemalloc)
  target_link_libraries(ckn_malloc INTERFACE Jemalloc::jemalloc)
endif()
if(BUILD_TESTING)
  ckn_imported_library(Liblinear::liblinear linear.h LIBRARIES linear)
endif()

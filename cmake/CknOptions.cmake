# Compiler settings shared by every target: language, warnings, sanitizers. No instruction set beyond the
# platform's baseline is named here; faster code is chosen at run time.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# -g1 keeps line numbers for stack traces at a fraction of the link time and size of full debug information.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O3 -g1 -DNDEBUG")
# Optimised enough for real training problems under a sanitizer, assertions on.
set(CMAKE_CXX_FLAGS_SANITIZE "-O1 -g1 -fno-omit-frame-pointer")

option(CKN_WERROR "Treat compiler warnings as errors" ON)
option(CKN_FUZZ "Build tests/fuzz as libFuzzer programs; needs clang" OFF)
set(CKN_SANITIZE "" CACHE STRING "Comma-separated sanitizers for -fsanitize=")

add_library(ckn_options INTERFACE)
target_include_directories(ckn_options INTERFACE "${PROJECT_SOURCE_DIR}")
if(CKN_SANITIZE)
  target_compile_options(ckn_options INTERFACE -fsanitize=${CKN_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(ckn_options INTERFACE -fsanitize=${CKN_SANITIZE})
endif()
if(CKN_FUZZ)
  target_compile_options(ckn_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(CKN_SANITIZE MATCHES "thread")
  # ThreadSanitizer does not see into Debian's libabsl; every absl function that synchronises goes through a wrapper.
  set(CKN_TSAN_WRAPPED
      _ZN4absl7debian35Mutex4LockEv
      _ZN4absl7debian35Mutex10ReaderLockEv
      _ZN4absl7debian35Mutex6UnlockEv
      _ZN4absl7debian35Mutex12ReaderUnlockEv
      _ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE
      _ZN4absl7debian37CondVar4WaitEPNS0_5MutexE
      _ZN4absl7debian37CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE
      _ZN4absl7debian315BlockingCounter4WaitEv
      _ZN4absl7debian315BlockingCounter14DecrementCountEv
      _ZN4absl7debian37Barrier5BlockEv
      _ZN4absl7debian312Notification6NotifyEv
      _ZNK4absl7debian312Notification19WaitForNotificationEv
      _ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE)
  add_library(ckn_tsan_absl_sync STATIC "${CMAKE_CURRENT_LIST_DIR}/tsan_absl_sync.cc")
  target_compile_options(ckn_tsan_absl_sync PRIVATE -fsanitize=${CKN_SANITIZE})
  target_link_libraries(ckn_options INTERFACE ckn_tsan_absl_sync)
  foreach(symbol IN LISTS CKN_TSAN_WRAPPED)
    target_link_options(ckn_options INTERFACE "LINKER:--wrap=${symbol}")
  endforeach()
endif()

add_library(ckn_warnings INTERFACE)
target_compile_options(ckn_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                                              -Wold-style-cast)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms inside std::string when a short literal is assigned or put in front (GCC bug 105651).
  target_compile_options(ckn_warnings INTERFACE -Wno-restrict)
endif()
if(CKN_WERROR)
  target_compile_options(ckn_warnings INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(ckn_warnings INTERFACE -Wthread-safety)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  set(CMAKE_C_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
endif()

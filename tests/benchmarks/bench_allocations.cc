// `ckn bench` with one more column: the bytes of memory asked for an image. To count them takes a malloc of our own,
// which is nothing for a program that serves; so it is this one's.
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "CLI/CLI.hpp"
#include "server/commands/commands.h"

namespace {

std::atomic<std::int64_t> allocated{0};

std::int64_t AllocatedBytes() { return allocated; }

void Count(std::size_t bytes) { allocated.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed); }

}  // namespace

// glibc's own. What is asked for by operator new comes through malloc as well.
extern "C" {

void* __libc_malloc(std::size_t size);                           // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(std::size_t count, std::size_t size);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* memory, std::size_t size);            // NOLINT(bugprone-reserved-identifier)
void* __libc_memalign(std::size_t alignment, std::size_t size);  // NOLINT(bugprone-reserved-identifier)

void* malloc(std::size_t size) {
  Count(size);
  return __libc_malloc(size);
}

void* calloc(std::size_t nmemb, std::size_t size) {
  Count(nmemb * size);
  return __libc_calloc(nmemb, size);
}

void* realloc(void* ptr, std::size_t size) {
  Count(size);
  return __libc_realloc(ptr, size);
}

void* aligned_alloc(std::size_t alignment, std::size_t size) {
  Count(size);
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** memptr, std::size_t alignment, std::size_t size) {
  Count(size);
  *memptr = __libc_memalign(alignment, size);
  return *memptr == nullptr ? ENOMEM : 0;
}
}

int main(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app("ckn bench, with the bytes of memory asked for an image once the threads have seen one.");
  app.require_subcommand(1);
  ckn::AddBenchCommand(app, exit_code, &AllocatedBytes);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}

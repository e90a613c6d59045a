// Read by jemalloc when the program begins. A thread of its own gives back the memory that a burst of calls took, also
// when no call comes after it.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "background_thread:true";
}

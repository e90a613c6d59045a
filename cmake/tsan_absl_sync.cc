// Tells ThreadSanitizer what Debian's libabsl synchronises, which it cannot see since that library is not instrumented.
// The linker (--wrap, see CknOptions.cmake) sends the calls of this project through these functions; each one declares
// the happens-before edge and calls the real one. Only in builds with -fsanitize=thread.
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

extern "C" {

void __tsan_acquire(void* address);
void __tsan_release(void* address);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);

// Names are the mangled ones; `self` is the object.
#define CKN_REAL(name) __real__ZN4absl7debian3##name
#define CKN_WRAP(name) __wrap__ZN4absl7debian3##name
#define CKN_REAL_CONST(name) __real__ZNK4absl7debian3##name
#define CKN_WRAP_CONST(name) __wrap__ZNK4absl7debian3##name

// What runs between the two edges is inside the lock, but in a thread that has given its edge away already: above all
// the conditions of other waiters, which Unlock() evaluates.
class IgnoreReads {
 public:
  IgnoreReads() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~IgnoreReads() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
};

#define CKN_ACQUIRES(name)          \
  void CKN_REAL(name)(void*);       \
  void CKN_WRAP(name)(void*);       \
  void CKN_WRAP(name)(void* self) { \
    CKN_REAL(name)(self);           \
    __tsan_acquire(self);           \
  }
#define CKN_RELEASES(name)          \
  void CKN_REAL(name)(void*);       \
  void CKN_WRAP(name)(void*);       \
  void CKN_WRAP(name)(void* self) { \
    __tsan_release(self);           \
    const IgnoreReads ignore;       \
    CKN_REAL(name)(self);           \
  }

CKN_ACQUIRES(5Mutex4LockEv)
CKN_ACQUIRES(5Mutex10ReaderLockEv)
CKN_RELEASES(5Mutex6UnlockEv)
CKN_RELEASES(5Mutex12ReaderUnlockEv)
CKN_ACQUIRES(15BlockingCounter4WaitEv)
CKN_RELEASES(12Notification6NotifyEv)

void CKN_REAL(5Mutex5AwaitERKNS0_9ConditionE)(void*, const absl::Condition*);
void CKN_WRAP(5Mutex5AwaitERKNS0_9ConditionE)(void* self, const absl::Condition* condition);
void CKN_WRAP(5Mutex5AwaitERKNS0_9ConditionE)(void* self, const absl::Condition* condition) {
  __tsan_release(self);
  {
    const IgnoreReads ignore;
    CKN_REAL(5Mutex5AwaitERKNS0_9ConditionE)(self, condition);
  }
  __tsan_acquire(self);
}

void CKN_REAL(7CondVar4WaitEPNS0_5MutexE)(void*, void*);
void CKN_WRAP(7CondVar4WaitEPNS0_5MutexE)(void* self, void* mutex);
void CKN_WRAP(7CondVar4WaitEPNS0_5MutexE)(void* self, void* mutex) {
  __tsan_release(mutex);
  CKN_REAL(7CondVar4WaitEPNS0_5MutexE)(self, mutex);
  __tsan_acquire(mutex);
}

bool CKN_REAL(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(void*, void*, absl::Time);
bool CKN_WRAP(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(void* self, void* mutex, absl::Time deadline);
bool CKN_WRAP(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(void* self, void* mutex, absl::Time deadline) {
  __tsan_release(mutex);
  const bool late = CKN_REAL(7CondVar16WaitWithDeadlineEPNS0_5MutexENS0_4TimeE)(self, mutex, deadline);
  __tsan_acquire(mutex);
  return late;
}

bool CKN_REAL(15BlockingCounter14DecrementCountEv)(void*);
bool CKN_WRAP(15BlockingCounter14DecrementCountEv)(void* self);
bool CKN_WRAP(15BlockingCounter14DecrementCountEv)(void* self) {
  __tsan_release(self);
  return CKN_REAL(15BlockingCounter14DecrementCountEv)(self);
}

bool CKN_REAL(7Barrier5BlockEv)(void*);
bool CKN_WRAP(7Barrier5BlockEv)(void* self);
bool CKN_WRAP(7Barrier5BlockEv)(void* self) {
  __tsan_release(self);
  const bool last = CKN_REAL(7Barrier5BlockEv)(self);
  __tsan_acquire(self);
  return last;
}

void CKN_REAL_CONST(12Notification19WaitForNotificationEv)(void*);
void CKN_WRAP_CONST(12Notification19WaitForNotificationEv)(void* self);
void CKN_WRAP_CONST(12Notification19WaitForNotificationEv)(void* self) {
  CKN_REAL_CONST(12Notification19WaitForNotificationEv)(self);
  __tsan_acquire(self);
}

bool CKN_REAL_CONST(12Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(void*, absl::Duration);
bool CKN_WRAP_CONST(12Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(void* self, absl::Duration timeout);
bool CKN_WRAP_CONST(12Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(void* self, absl::Duration timeout) {
  const bool notified = CKN_REAL_CONST(12Notification30WaitForNotificationWithTimeoutENS0_8DurationE)(self, timeout);
  if (notified) __tsan_acquire(self);
  return notified;
}

}  // extern "C"

#include "server/base/cpu_quota.h"

#include <sched.h>

#include <filesystem>

#include "gtest/gtest.h"
#include "tests/testing/temp_dir.h"

namespace ckn {
namespace {

// A folder that looks like /sys/fs/cgroup.
class CgroupCpuQuotaTest : public ::testing::Test {
 protected:
  void Write(const std::string& group, const std::string& file, const std::string& text) {
    std::filesystem::create_directories(root_.File(group));
    root_.Write(group + "/" + file, text);
  }
  double Quota(const std::string& memberships) { return CgroupCpuQuota(root_.path(), memberships); }

  testing::TempDir root_;
};

TEST_F(CgroupCpuQuotaTest, Version2InAContainerHasItAtTheRoot) {
  Write(".", "cpu.max", "150000 100000\n");
  EXPECT_EQ(Quota("0::/\n"), 1.5);
  EXPECT_EQ(Quota("0::/../../host/path\n"), 1.5);
  EXPECT_EQ(Quota("0::/kubepods/pod1/container\n"), 1.5) << "the path is the host's";
}

TEST_F(CgroupCpuQuotaTest, Version2TakesTheSmallestOnTheWayUp) {
  Write("a.slice", "cpu.max", "300000 100000\n");
  Write("a.slice/b.service", "cpu.max", "max 100000\n");
  EXPECT_EQ(Quota("0::/a.slice/b.service\n"), 3);
  Write("a.slice/b.service", "cpu.max", "20000 40000\n");
  EXPECT_EQ(Quota("0::/a.slice/b.service\n"), 0.5);
  EXPECT_EQ(Quota("0::/a.slice\n"), 3);
  EXPECT_EQ(Quota("0::/other\n"), 0);
}

TEST_F(CgroupCpuQuotaTest, Version1HasAFileEach) {
  Write("cpu", "cpu.cfs_quota_us", "-1\n");
  Write("cpu", "cpu.cfs_period_us", "100000\n");
  const std::string memberships = "9:memory:/x\n4:cpu,cpuacct:/docker/1\n1:name=systemd:/y\n0::/z\n";
  EXPECT_EQ(Quota(memberships), 0);
  Write("cpu/docker/1", "cpu.cfs_quota_us", "250000\n");
  Write("cpu/docker/1", "cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Quota(memberships), 2.5);
  EXPECT_EQ(Quota("5:cpuset:/docker/1\n"), 0) << "another controller";
}

TEST_F(CgroupCpuQuotaTest, WhatIsNotAQuotaIsNone) {
  for (const char* const text : {"", "max 100000\n", "100000\n", "0 100000\n", "-1 100000", "100000 0\n",
                                 "1e5 100000\n", "100000 100000 1\n", "99999999999999999999 1\n"}) {
    Write(".", "cpu.max", text);
    EXPECT_EQ(Quota("0::/\n"), 0) << text;
  }
  EXPECT_EQ(Quota(""), 0);
  EXPECT_EQ(Quota("0:/\n\n:"), 0);
}

TEST(AvailableCpusTest, IsNoMoreThanTheAffinityMask) {
  EXPECT_GE(AvailableCpus(), 1);
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const int cpus = AvailableCpus();
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
  EXPECT_EQ(cpus, 1);
}

}  // namespace
}  // namespace ckn

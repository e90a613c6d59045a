#!/usr/bin/env bash
# root_files_test.sh SCRIPT PROGRAM...: the programs run in the root file system that container/root_files makes of
# them, which holds nothing else that could run.
set -euo pipefail
((EUID == 0)) || { echo "skipped: chroot needs root"; exit 77; }
script=$1
shift
# Not with -q: grep would end at the first line and ldd by SIGPIPE, which pipefail takes for "no".
if ldd "$1" | grep -E 'lib[at]san' >/dev/null; then echo "skipped: a sanitizer wants /proc"; exit 77; fi
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

fail() {
  echo "FAILED: $1"
  exit 1
}

"$script" "$root" "$@"
programs=""
for program in "$@"; do
  name=$(basename "$program")
  programs+="$name "
  chroot "$root" "/usr/bin/$name" --version || fail "$name does not run there"
done
found=$(find "$root" -type f -perm /111 ! -name '*.so*' -printf '%f\n' | sort | tr '\n' ' ')
[[ $found == "$programs" ]] || fail "got the programs $found, expected $programs"
packages=$(ls "$root/var/lib/dpkg/status.d")
grep -q '^libc6$' <<<"$packages" || fail "libc6 is not among the packages: $packages"
for package in $packages; do
  grep -q "^Version: " "$root/var/lib/dpkg/status.d/$package" || fail "no version of $package"
  [[ -s $root/usr/share/doc/$package/copyright ]] || fail "no licence of $package"
done
# What is no program makes no image.
if "$script" "$root/second" /etc/passwd 2>/dev/null; then fail "a file that is no program was accepted"; fi

"""The unit tests of the alerting rules, by promtool; skipped where there is none."""

import shutil
import sys

import monitoring
import tools

SKIPPED = 77  # CMakeLists.txt tells ctest


def main():
    if shutil.which("promtool") is None:
        line = "#" * 80
        print(f"{line}\n# SKIPPED, nothing was tested: no promtool in PATH; Debian's package prometheus has it\n{line}")
        sys.exit(SKIPPED)
    for command in (["check", "rules", monitoring.RULES], ["test", "rules", monitoring.RULES_TEST]):
        print(tools.output("promtool", *command))


if __name__ == "__main__":
    main()

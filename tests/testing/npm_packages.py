"""What tests and benchmarks use of npm: a folder with package.json and package-lock.json says what, and it is fetched
into a folder of build/, never during the tests.

usage: npm_packages.py SOURCE NAME    fetches what SOURCE/package-lock.json says into build/NAME
"""

import os
import shutil
import subprocess
import sys

BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "build")
TIMEOUT = 600  # seconds


class NpmPackages:
    def __init__(self, source, name):
        """`source`: the folder of package-lock.json; `name`: that of build/."""
        self.source = source
        self.folder = os.path.join(BUILD, name)
        self.modules = os.path.join(self.folder, "node_modules")

    def missing(self):
        """Why the packages cannot be used here; None when they can."""
        if shutil.which("node") is None:
            return "no node in PATH"
        if not self._fetched():
            return f"what {os.path.relpath(self.source)}/package.json names is not in {os.path.relpath(self.folder)}"
        return None

    def fetch(self):
        """Fetches the packages, unless they are there."""
        if self._fetched():
            return
        os.makedirs(self.folder, exist_ok=True)
        shutil.copy(os.path.join(self.source, "package.json"), self.folder)
        shutil.copy(os.path.join(self.source, "package-lock.json"), self.folder)
        # None of the packages that are used here needs its scripts.
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", self.folder]
        try:
            subprocess.run(command, check=True, timeout=TIMEOUT, stdout=subprocess.DEVNULL)
        except BaseException:
            os.remove(self._copy())  # what is there is not complete
            raise

    def environment(self):
        """For programs that run in Node."""
        return {**os.environ, "NODE_PATH": self.modules}

    def _copy(self):
        return os.path.join(self.folder, "package-lock.json")

    def _fetched(self):
        if not (os.path.exists(self._copy()) and os.path.isdir(self.modules)):
            return False
        with open(self._copy()) as copy, open(os.path.join(self.source, "package-lock.json")) as lock:
            return copy.read() == lock.read()


if __name__ == "__main__":
    NpmPackages(os.path.abspath(sys.argv[1]), sys.argv[2]).fetch()

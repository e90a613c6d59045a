"""Node's gRPC (@grpc/grpc-js) against `ckn serve`: node/client_test.js, with what it must get from `ckn-client`."""

import json
import os
import subprocess
import sys

import ckn_e2e

ARGUMENTS = ckn_e2e.parse_arguments()
sys.path.insert(0, os.path.join(ARGUMENTS.source, "tests", "testing"))
from npm_packages import NpmPackages  # noqa: E402, from the folder above

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGES = NpmPackages(os.path.join(HERE, "node"), "node_client")
SIDE = 8  # of the tiny model's images
# Stripes and slopes, which the model tells apart.
SHADES = [
    lambda x, y: 32 * x,
    lambda x, y: 32 * y,
    lambda x, y: 255 * (x % 2),
    lambda x, y: 255 * (y % 2),
    lambda x, y: 255 * ((x + y) % 2),
    lambda x, y: 255 * (x // 2 % 2),
    lambda x, y: 255 * (x < 4),
    lambda x, y: 16 * (x + y),
]


def main():
    if reason := PACKAGES.missing():
        ckn_e2e.skip(f"{reason}; ./run fetch gets it")
    with ckn_e2e.temporary_folder() as folder:
        subprocess.run([ARGUMENTS.write_tiny_model, os.path.join(folder, "tiny.ckn")], check=True)
        pixels = [[shade(x, y) for y in range(SIDE) for x in range(SIDE)] for shade in SHADES]
        files = []
        for seed, gray in enumerate(pixels):
            files.append(os.path.join(folder, f"{seed}.png"))
            with open(files[-1], "wb") as file:
                file.write(ckn_e2e.png(SIDE, SIDE, bytes(gray)))
        with ckn_e2e.Server(ARGUMENTS.ckn, folder) as server:
            command = [ARGUMENTS.ckn_client, "--server", server.address, "classify", "--json", "--top-k", "3", *files]
            results = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["results"]
            images = [{"file": file, "pixels": gray, "label": result["classes"][0]["label"],
                       "scores": [c["score"] for c in sorted(result["classes"], key=lambda c: c["index"])]}
                      for file, gray, result in zip(files, pixels, results, strict=True)]
            # Mixed-up images would be seen.
            assert len({tuple(image["scores"]) for image in images}) == len(images)
            task = {"server": server.address, "proto": os.path.join(ARGUMENTS.source, "proto"), "model": "tiny",
                    "side": SIDE, "images": images}
            with open(os.path.join(folder, "task.json"), "w") as file:
                json.dump(task, file)
            finished = subprocess.run(["node", os.path.join(HERE, "node", "client_test.js"), file.name],
                                      env=PACKAGES.environment(), timeout=300)
    sys.exit(finished.returncode)


if __name__ == "__main__":
    main()

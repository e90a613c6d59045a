"""A real Prometheus that scrapes real servers, and what fills the rest of a cluster's place beside them."""

import http.server
import json
import os
import re
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import monitoring

# As a Deployment names its pods.
PODS = ["ckn-6d4cf56db6-x2x9k", "ckn-6d4cf56db6-7qkvw"]


def get(url):
    with urllib.request.urlopen(url, timeout=30) as reply:
        return reply.read().decode()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class ClusterMetrics:
    """Stands in for kube-state-metrics and cAdvisor: the few series of theirs that rules and dashboard read."""

    def __init__(self):
        self.restarts = 0
        self.begin = time.monotonic()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                body = outer.text().encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Type", "text/plain; version=0.0.4")
                    self.end_headers()
                    self.wfile.write(body)
                except BrokenPipeError:
                    pass  # a scrape that took too long

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def text(self):
        labels = f'{{namespace="ckn",pod="{PODS[0]}",container="ckn"}}'
        elapsed = time.monotonic() - self.begin
        values = {"kube_pod_container_status_restarts_total": self.restarts,
                  "container_cpu_usage_seconds_total": 0.5 * elapsed,
                  "container_cpu_cfs_periods_total": 10 * elapsed,
                  "container_cpu_cfs_throttled_periods_total": 0.1 * elapsed,
                  "container_memory_working_set_bytes": 1e8}
        return "".join(f"{name}{labels} {value}\n" for name, value in values.items())

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Prometheus:
    """Scrapes every other second, with the rules of deploy/, whose `for` times are cut to a second: the unit tests check those."""

    def __init__(self, folder, ckn_targets, cluster_target):
        self.folder = folder
        self.targets_file = os.path.join(folder, "targets.json")
        self.set_targets(ckn_targets)
        with open(monitoring.RULES) as file:
            rules = re.sub(r"^( +for:) \d+[smhd]$", r"\1 1s", file.read(), flags=re.M)
        rules_file = os.path.join(folder, "rules.yaml")
        with open(rules_file, "w") as file:
            file.write(rules)
        config = {
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
            "rule_files": [rules_file],
            "scrape_configs": [
                {"job_name": "ckn", "file_sd_configs": [{"files": [self.targets_file], "refresh_interval": "1s"}]},
                {"job_name": "cluster", "honor_labels": True, "static_configs": [{"targets": [cluster_target]}]},
            ],
        }
        config_file = os.path.join(folder, "prometheus.json")  # JSON is YAML
        with open(config_file, "w") as file:
            json.dump(config, file)
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self.log = open(os.path.join(folder, "prometheus.log"), "w+")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={config_file}", f"--storage.tsdb.path={os.path.join(folder, 'data')}",
             f"--web.listen-address=127.0.0.1:{port}"], stdout=self.log, stderr=subprocess.STDOUT)
        self.wait_for("its start", self.is_ready)

    def is_ready(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise AssertionError(f"Prometheus ended with exit code {self.process.returncode}:\n{self.log.read()}")
        try:
            return get(f"{self.url}/-/ready")
        except OSError:
            return None

    def set_targets(self, targets):
        """targets: {"HOST:PORT": pod}."""
        groups = [{"targets": [target], "labels": {"namespace": "ckn", "pod": pod}} for target, pod in targets.items()]
        partial = self.targets_file + ".new"
        with open(partial, "w") as file:
            json.dump(groups, file)
        os.replace(partial, self.targets_file)

    def api(self, path, **parameters):
        reply = json.loads(get(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))
        assert reply["status"] == "success", reply
        return reply["data"]

    def values(self, query):
        """The finite values of an instant query; urllib.error.HTTPError for one that Prometheus refuses."""
        found = [float(sample["value"][1]) for sample in self.api("query", query=query)["result"]]
        return [value for value in found if value == value and abs(value) != float("inf")]

    def firing(self):
        return {alert["labels"]["alertname"] for alert in self.api("alerts")["alerts"] if alert["state"] == "firing"}

    def unhealthy_rules(self):
        """["name: error"] of the rules that Prometheus could not evaluate."""
        rules = [rule for group in self.api("rules")["groups"] for rule in group["rules"]]
        assert rules, "Prometheus has no rules"
        return [f"{rule['name']}: {rule.get('lastError')}" for rule in rules if rule["health"] != "ok"]

    def wait_for(self, what, condition, seconds=90):
        """The first true value of the condition; AssertionError when there is none in time."""
        end = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            assert time.monotonic() < end, f"waited {seconds} s for {what}"
            time.sleep(0.5)

    def close(self):
        self.process.terminate()
        self.process.wait(timeout=60)
        self.log.close()


class Load:
    """`workers` threads that call without a pause until the end of the with statement, but no longer than `seconds`."""

    def __init__(self, call, workers, seconds=90):
        self.end = time.monotonic() + seconds
        self.stopped = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(call,)) for _ in range(workers)]

    def run(self, call):
        while not self.stopped.is_set() and time.monotonic() < self.end:
            call()

    def __enter__(self):
        for thread in self.threads:
            thread.start()

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join()

#!/usr/bin/python3
"""deploy/ for real: the chart under helm, every manifest against its schema, rules and dashboard in a Prometheus that
scrapes `ckn serve` under load, with each alert's fault made to happen.

Ends with a line "N passed, N failed"; exit code 0 when none failed.
"""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import charts
import ckn_e2e
import grpc
import live
import monitoring
import tools

PARSER = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
PARSER.add_argument("--ckn", required=True, help="the ckn binary")
PARSER.add_argument("--ckn-client", required=True, help="the ckn-client binary")
PARSER.add_argument("--protoc", required=True)
PARSER.add_argument("--plugin", required=True, help="grpc_python_plugin")
PARSER.add_argument("--only", choices=["charts", "prometheus"], help="only this half")
ARGUMENTS = PARSER.parse_args()
ARGUMENTS.source, ARGUMENTS.work = tools.SOURCE, tools.FOLDER  # for ckn_e2e.import_stubs

SIDE = 28  # of the images of models/mnist.ckn
QUEUE = 16  # of the server under load
# No panel of these has data while all is well.
NEED_A_FAULT = {"Calls that were not OK, by status"}
# An alert about time may also fire when the machine is busy with other things.
OF_TIME = {"CknQueueLong", "CknLatencyBudgetBurnsFast", "CknLatencyBudgetBurnsSteady", "CknLatencyBudgetBurnsSlow"}

passed, failed = 0, []


def check(name, function, *arguments):
    global passed
    try:
        function(*arguments)
    except Exception as error:
        failed.append(name)
        text = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
        print(f"FAILED {name}\n    " + text.strip().replace("\n", "\n    "), flush=True)
    else:
        passed += 1
        print(f"ok     {name}", flush=True)


def check_charts():
    sets = charts.value_sets()
    rendered = {}
    for name, arguments in sets.items():
        check(f"helm lint: {name}", charts.check_lint, arguments)
        check(f"notes: {name}", charts.check_notes, arguments)
        rendered[name] = charts.documents(tools.render(*arguments, release=charts.release(name)))
        check(f"parts fit: {name}", charts.check_parts_fit, rendered[name])
        check(f"restricted profile: {name}", charts.check_restricted, rendered[name])
        command = charts.server_container(rendered[name])["args"]
        check(f"ckn serve takes the arguments: {name}", charts.check_server_accepts, ARGUMENTS.ckn, command)
    for arguments, reason in charts.REFUSED:
        check(f"refused: {arguments}", charts.check_refused, arguments, reason)
    check("settings are those of ckn serve", charts.check_settings_are_the_servers, ARGUMENTS.ckn)
    runtime = charts.read("kserve", "serving-runtime.yaml")[0]["spec"]["containers"][0]["args"]
    check("ckn serve takes the arguments: KServe", charts.check_server_accepts, ARGUMENTS.ckn, runtime)
    check("types of all manifests and of the dashboard", charts.check_types, rendered)
    for name in ("autoscaled", "init-keda", "volume"):
        check(f"the type check finds mistakes: {name}", charts.check_types_finds_mistakes, rendered[name])
    check("deploy/kubernetes is up to date", charts.check_manifests_up_to_date)
    check("kubectl kustomize", charts.check_kustomize)
    check("a canary joins the stable release's Service", charts.check_canary, rendered["autoscaled"],
          rendered["canary"])
    check("the chart's rules and dashboard", charts.check_rule_object, rendered["init-keda"])
    query = [trigger["metadata"]["query"] for trigger in charts.one(rendered["init-keda"], "ScaledObject")["spec"]
             ["triggers"] if trigger["type"] == "prometheus"]
    return query


def check_rule_files():
    check("promtool check rules", tools.output, "promtool", "check", "rules", monitoring.RULES)
    check("promtool test rules", tools.output, "promtool", "test", "rules", monitoring.RULES_TEST)
    check("promtool check config", tools.output, "promtool", "check", "config",
          os.path.join(tools.DEPLOY, "prometheus", "prometheus.yaml"))


def image(seed):
    return ckn_e2e.png(SIDE, SIDE, bytes((seed * 97 + i * 31 + (i * i) % 61) % 256 for i in range(SIDE * SIDE)))


class Scene:
    """Two servers of one job, a Prometheus that scrapes them, and clients."""

    def __init__(self, folder, autoscaler_queries):
        self.folder = folder
        self.autoscaler_queries = autoscaler_queries
        self.models = os.path.join(folder, "models")
        os.mkdir(self.models)
        for model in ("mnist.ckn", "fashion-mnist.ckn"):
            shutil.copy(os.path.join(tools.SOURCE, "models", model), self.models)
        # So small that a few clients overload it; slow to stop, so that its end can be watched.
        arguments = ["--threads", "1", "--queue", str(QUEUE), "--lame-duck-ms", "20000"]
        self.server = ckn_e2e.Server(ARGUMENTS.ckn, self.models, *arguments).__enter__()
        self.channel = grpc.insecure_channel(self.server.address)
        self.pb, pb_grpc = ckn_e2e.import_stubs(ARGUMENTS)
        self.classify = pb_grpc.InferenceStub(self.channel).Classify
        self.cluster = live.ClusterMetrics()
        self.prometheus = live.Prometheus(folder, {self.server.http: live.PODS[0]}, self.cluster.address)
        self.images = [os.path.join(folder, f"{seed}.png") for seed in range(8)]
        for seed, path in enumerate(self.images):
            with open(path, "wb") as file:
                file.write(image(seed))

    def client(self, *arguments):
        return subprocess.run([ARGUMENTS.ckn_client, "--server", self.server.address, *arguments], timeout=60,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    def light_load(self):
        """A call of each kind, with a pause; the exit codes that are not as expected."""
        bad = []
        for expected, *arguments in (
            (0, "classify", self.images[0], "--model", "mnist"), (0, "models"),
            (0, "classify", *self.images, "--model", "fashion-mnist"),
            (0, "encode", *self.images, "--model", "mnist", "--out", os.path.join(self.folder, "f.npy")),
        ):
            code = self.client(*arguments)
            if code != expected:
                bad.append((arguments[0], code))
        time.sleep(0.5)
        return bad

    def expect_alerts(self, *names, absent=False):
        for name in names:
            what = f"{name} to {'end' if absent else 'fire'}"
            self.prometheus.wait_for(what, lambda: (name in self.prometheus.firing()) != absent)

    # What is checked, in this order; each leaves the servers as it found them, until the end.

    def metrics_page_is_clean(self):
        tools.output("promtool", "check", "metrics", stdin=live.get(f"http://{self.server.http}/metrics"))

    def names_are_exported(self):
        unknown = monitoring.unknown_names(live.get(f"http://{self.server.http}/metrics"))
        assert not unknown, "\n".join(unknown)

    def queries_return_data(self):
        """All at once, in as many rounds of light load as it takes."""
        waiting = [query for query in monitoring.dashboard_queries() if query[0] not in NEED_A_FAULT]
        waiting += [(f"rule {rule['record']}", rule["record"]) for rule in monitoring.rules("record")]
        labels = f'namespace="ckn",pod=~"{"|".join(live.PODS)}"'
        waiting.append(("adapter.yaml", monitoring.adapter_query("ckn_in_flight_requests", labels, "pod")))
        waiting += [("ScaledObject", query) for query in self.autoscaler_queries]
        total, end = len(waiting), time.monotonic() + 90
        while waiting and time.monotonic() < end:
            assert not (bad := self.light_load()), f"ckn-client: {bad}"
            waiting = [(title, query) for title, query in waiting if not self.prometheus.values(query)]
        assert not waiting, "no data:\n" + "\n".join(f"{title}: {query}" for title, query in waiting)
        print(f"       {total} queries", flush=True)

    def alerts_are_quiet(self):
        firing = self.prometheus.firing() - OF_TIME
        assert not firing, f"without a fault, these fire: {firing}"

    def alert_queries_are_accepted(self):
        unhealthy = self.prometheus.unhealthy_rules()
        assert not unhealthy, "\n".join(unhealthy)

    def bad_image_shows(self):
        broken = os.path.join(self.folder, "broken.png")
        with open(broken, "wb") as file:
            file.write(b"no image")
        queries = [query for query in monitoring.dashboard_queries() if query[0] in NEED_A_FAULT]

        def shows():
            assert self.client("classify", broken, "--model", "mnist") == 1
            return all(self.prometheus.values(query) for _, query in queries)

        self.prometheus.wait_for(f"data in {NEED_A_FAULT}", shows)

    def classify_many(self):
        """A call that takes a while, by a client that pauses when it is refused, or not answered in time."""
        request = self.pb.ClassifyRequest(model="mnist")
        for seed in range(200):
            request.images.add(encoded=image(seed))

        def call():
            try:
                self.classify(request, timeout=30)
            except grpc.RpcError as error:
                if error.code() not in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise
                time.sleep(0.1)

        return call

    def long_queue(self):
        with live.Load(self.classify_many(), workers=QUEUE - 2):
            self.expect_alerts("CknQueueLong", "CknLatencyBudgetBurnsFast", "CknLatencyBudgetBurnsSteady",
                               "CknLatencyBudgetBurnsSlow")

    def overload(self):
        with live.Load(self.classify_many(), workers=2 * QUEUE):
            self.expect_alerts("CknQueueSaturated", "CknErrorBudgetBurnsFast", "CknErrorBudgetBurnsSteady",
                               "CknErrorBudgetBurnsSlow")

    def bad_model(self):
        path = os.path.join(self.models, "broken.ckn")
        with open(path, "wb") as file:
            file.write(b"no model")
        self.server.process.send_signal(signal.SIGHUP)
        self.expect_alerts("CknModelLoadFailed")
        os.remove(path)
        self.server.process.send_signal(signal.SIGHUP)
        self.expect_alerts("CknModelLoadFailed", absent=True)
        assert self.client("classify", self.images[0], "--model", "mnist") == 0, "the models that were there are gone"

    def different_models(self):
        other = os.path.join(self.folder, "other")
        os.mkdir(other)
        shutil.copy(os.path.join(self.models, "mnist.ckn"), other)
        with ckn_e2e.Server(ARGUMENTS.ckn, other) as second:
            self.prometheus.set_targets({self.server.http: live.PODS[0], second.http: live.PODS[1]})
            self.expect_alerts("CknModelsDiffer")
            self.prometheus.set_targets({self.server.http: live.PODS[0]})
            self.expect_alerts("CknModelsDiffer", absent=True)

    def restarts(self):
        for _ in range(5):
            self.cluster.restarts += 1
            time.sleep(2.2)  # so that each is seen
        self.expect_alerts("CknRestartLoop")

    def end(self):
        stopped = threading.Thread(target=self.server.__exit__, args=(None,))
        stopped.start()
        try:
            self.expect_alerts("CknNotReady", "CknDown")
        finally:
            stopped.join()
        assert self.server.process.returncode == 0, f"exit code {self.server.process.returncode}"
        self.expect_alerts("CknNotReady", absent=True)  # a server that is gone is not one that is stuck
        self.expect_alerts("CknDown")

    def close(self):
        self.channel.close()
        self.prometheus.close()
        self.cluster.close()
        if self.server.process.poll() is None:
            self.server.process.kill()
            self.server.process.wait()


def check_prometheus(autoscaler_queries):
    with ckn_e2e.temporary_folder() as folder:
        scene = Scene(folder, autoscaler_queries)
        try:
            check("promtool check metrics", scene.metrics_page_is_clean)
            check("rules and dashboard read metrics that the server exports", scene.names_are_exported)
            check("every query of the dashboard, the rules and the autoscalers returns data", scene.queries_return_data)
            check("Prometheus evaluates every rule", scene.alert_queries_are_accepted)
            check("no alert fires without a fault", scene.alerts_are_quiet)
            check("a bad image shows in the dashboard", scene.bad_image_shows)
            check("more load than the server can carry fires CknQueueLong and the alerts of latency", scene.long_queue)
            check("an overload fires CknQueueSaturated and the alerts of errors", scene.overload)
            check("a bad model file fires CknModelLoadFailed, its removal ends it", scene.bad_model)
            check("servers with different models fire CknModelsDiffer", scene.different_models)
            check("restarts fire CknRestartLoop", scene.restarts)
            check("a server that stops fires CknNotReady, then CknDown", scene.end)
        finally:
            scene.close()


def main():
    begin = time.monotonic()
    tools.fetch()
    queries = []
    if ARGUMENTS.only != "prometheus":
        queries = check_charts()
    if ARGUMENTS.only != "charts":
        check_rule_files()
        check_prometheus(queries)
    print(f"{time.monotonic() - begin:.0f} s")
    for name in failed:
        print(f"FAILED {name}")
    print(f"{passed} passed, {len(failed)} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

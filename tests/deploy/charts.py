"""Checks of the chart and the manifests: each is a function that raises AssertionError with what is wrong."""

import json
import os
import re

import manifests
import tools
import typed_check
import yaml

VALUES = os.path.join(tools.HERE, "values")
# Settings of `ckn serve` that follow from other values of the chart, so that `settings` has no place for them.
MANAGED = {"models", "listen", "http", "threads", "lame-duck-ms", "drain-timeout-ms", "tls-cert", "tls-key",
           "tls-client-ca", "token-file", "manager-token-file"}
# Values that must be refused: arguments of helm, and a part of the reason.
REFUSED = [
    ("--set replicacount=3", "additional properties 'replicacount' not allowed"),
    ("--set settings.max-image=3", "additional properties 'max-image' not allowed"),
    ("--set settings.max-images=many", "settings/max-images': got string, want integer"),
    ("--set shutdown.lameDuckSeconds=30", "terminationGracePeriodSeconds: got 40, expected at least 55"),
    ("--set keda.enabled=true,autoscaling.enabled=true", "expected at most one"),
    ("--set autoscaling.enabled=true,autoscaling.maxReplicas=1", "autoscaling.maxReplicas: got 1"),
    ("--set autoscaling.enabled=true,autoscaling.targetCpuUtilization=0", "are both 0"),
    ("--set resources.limits.memory=256Mi", "limits.memory: got 256Mi, expected at least"),
    ("--set threads=2", "threads: got 2, expected at most resources.limits.cpu"),
    ("--set resources.limits.cpu=8", "+ 8 threads"),
    ("--set tls.secretName=a,probes.type=grpc", "gRPC probes know no TLS"),
    ("--set tls.clientCaKey=a", "tls.clientCaKey: needs tls.secretName"),
    ("--set tokens.managerKey=a", "tokens.managerKey: needs tokens.secretName"),
    ("--set tokens.secretName=a,tokens.managerKey=b", "needs settings.model-control: true"),
    ("--set settings.model-control=true,tokens.secretName=a", "every caller with a token"),
    ("--set settings.max-message-mib=97", "settings.max-message-mib: got 97, expected at most"),
    ("--set models.source=init", "models.init.image: not set"),
    ("--set service.enabled=false,monitoring.serviceMonitor.enabled=true", "needs service.enabled"),
]


def value_sets():
    """{name: arguments of helm}: the defaults, and each file of values/."""
    sets = {"defaults": []}
    for file in sorted(os.listdir(VALUES)):
        sets[os.path.splitext(file)[0]] = ["--values", os.path.join(VALUES, file)]
    return sets


def release(name):
    """Of a value set: the canary stands beside the others."""
    return "ckn-canary" if name == "canary" else "ckn"


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


def read(*path):
    with open(os.path.join(tools.DEPLOY, *path)) as file:
        return documents(file.read())


def one(manifest, kind):
    found = [document for document in manifest if document["kind"] == kind]
    assert len(found) == 1, f"{kind}: {len(found)} of them, expected one"
    return found[0]


def check_lint(arguments):
    code, out, errors = tools.run(tools.HELM, "lint", "--strict", tools.CHART, *arguments)
    assert code == 0, out + errors


def check_notes(arguments):
    out = tools.output(tools.HELM, "install", "ckn", tools.CHART, "--dry-run=client", "--namespace", "ckn", *arguments)
    notes = out.partition("NOTES:")[2]
    assert "kubectl --namespace ckn rollout status deployment/" in notes, f"the notes: {notes!r}"


def check_refused(arguments, reason):
    code, out, errors = tools.run(tools.HELM, "template", "ckn", tools.CHART, *arguments.split())
    assert code != 0, "rendered, expected an error"
    assert reason in errors, f"got {errors.strip()!r}, expected a message with {reason!r}"


def check_types(sets):
    literals = []
    for name, manifest in sets.items():
        literals += typed_check.manifest_literals(name, manifest)
    literals += typed_check.manifest_literals("deploy/kserve", read("kserve", "serving-runtime.yaml"))
    literals += typed_check.manifest_literals("deploy/kserve", read("kserve", "inference-service.yaml"))
    literals += typed_check.manifest_literals("deploy/jobs", read("jobs", "encode.yaml"))
    literals += typed_check.manifest_literals("deploy/kubernetes", read("kubernetes", "ckn.yaml"))
    literals += typed_check.manifest_literals("deploy/kubernetes", read("kubernetes", "namespace.yaml"))
    with open(os.path.join(tools.DEPLOY, "grafana", "ckn.json")) as file:
        literals += typed_check.dashboard_literals(json.load(file))
    found = typed_check.errors(literals)
    assert not found, "\n".join(found)


def check_types_finds_mistakes(manifest):
    """That the check above can fail: each kind of manifest with a field that it does not have."""
    broken = json.loads(json.dumps(manifest))
    for document in broken:
        document.get("spec", document)["noSuchField"] = 1
    found = typed_check.errors(typed_check.manifest_literals("broken", broken))
    for document in broken:
        label = f"broken: {document['kind']} {document['metadata']['name']}:"
        assert any(line.startswith(label) for line in found), f"no error for {label} {found}"


def check_manifests_up_to_date():
    changes = manifests.difference()
    assert not changes, f"./run manifests would change:\n{changes}"


def check_kustomize():
    rendered = documents(tools.output(tools.KUBECTL, "kustomize", os.path.join(tools.DEPLOY, "kubernetes")))
    plain = read("kubernetes", "ckn.yaml") + read("kubernetes", "namespace.yaml")
    names = lambda list_: sorted((document["kind"], document["metadata"]["name"]) for document in list_)
    assert names(rendered) == names(plain), f"got {names(rendered)}, expected {names(plain)}"
    image = lambda list_: one(list_, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image(rendered) == image(plain), f"image: got {image(rendered)}, expected {image(plain)}"


def server_container(manifest):
    return one(manifest, "Deployment")["spec"]["template"]["spec"]["containers"][0]


def check_server_accepts(ckn, arguments):
    """`ckn serve` takes the arguments, and the environment that the chart sets does not change them."""
    code, out, errors = tools.run(ckn, *arguments, "--print-config")
    assert code == 0, f"{' '.join(arguments)}: {errors}"
    for argument in arguments[1:]:
        name, value = argument.removeprefix("--").split("=", 1)
        assert f"\n{name} = {value}\n" in "\n" + out, f"{argument}: the server says\n{out}"


def check_settings_are_the_servers(ckn):
    with open(os.path.join(tools.CHART, "values.schema.json")) as file:
        of_chart = set(json.load(file)["properties"]["settings"]["properties"]) | MANAGED
    out = tools.output(ckn, "serve", "--print-config")
    of_server = set(re.findall(r"^(?:# )?([a-z-]+) =", out, flags=re.M))
    assert of_chart == of_server, f"only the chart has {of_chart - of_server}, only the server {of_server - of_chart}"


def selects(selector, labels):
    return selector.items() <= labels.items()


def check_parts_fit(manifest):
    """What refers to what, within one release."""
    deployment = one(manifest, "Deployment")
    name, pod = deployment["metadata"]["name"], deployment["spec"]["template"]
    labels, spec = pod["metadata"]["labels"], pod["spec"]
    container = spec["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert selects(deployment["spec"]["selector"]["matchLabels"], labels), "the Deployment does not select its pods"
    volumes = {volume["name"] for volume in spec.get("volumes", [])}
    for user in spec["containers"] + spec.get("initContainers", []):
        mounts = {mount["name"] for mount in user.get("volumeMounts", [])}
        assert mounts <= volumes, f"container {user['name']} mounts {mounts - volumes}, which is no volume"
        assert user["securityContext"]["readOnlyRootFilesystem"], f"container {user['name']}: not read-only"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        handler = container[probe].get("grpc") or container[probe]["httpGet"]
        assert handler["port"] in set(ports) | {ports["grpc"]}, f"{probe}: port {handler['port']}"
    if any(argument.startswith("--tls-cert") for argument in container["args"]):
        assert "httpGet" in container["readinessProbe"], "a gRPC probe on a port with TLS"
    grace = spec["terminationGracePeriodSeconds"]
    times = {argument.split("=")[0]: int(argument.split("=")[1]) for argument in container["args"] if "-ms=" in argument}
    needed = (times["--lame-duck-ms"] + times["--drain-timeout-ms"]) / 1000
    assert grace > needed, f"grace period {grace} s, lame duck and drain timeout {needed} s"
    scaled = any(document["kind"] in ("HorizontalPodAutoscaler", "ScaledObject") for document in manifest)
    assert scaled != ("replicas" in deployment["spec"]), "replicas: expected exactly when nothing scales"
    accounts = [d["metadata"]["name"] for d in manifest if d["kind"] == "ServiceAccount"]
    assert not accounts or accounts == [spec["serviceAccountName"]], f"ServiceAccount {accounts}"
    for document in manifest:
        kind, body = document["kind"], document.get("spec", {})
        where = f"{kind} {document['metadata']['name']}"
        assert document["metadata"]["namespace"] == "ckn", f"{where}: namespace"
        if kind == "Service":
            assert selects(body["selector"], labels), f"{where} does not select the pods"
            assert {port["targetPort"] for port in body["ports"]} <= set(ports), f"{where}: no such port"
        elif kind in ("NetworkPolicy", "PodDisruptionBudget", "PodMonitor"):
            selector = body.get("podSelector") or body.get("selector")
            assert selects(selector["matchLabels"], labels), f"{where} does not select the pods"
            used = {port["port"] for rule in body.get("ingress", []) for port in rule["ports"]}
            used |= {endpoint["port"] for endpoint in body.get("podMetricsEndpoints", [])}
            assert used <= set(ports), f"{where}: ports {used}, the pod has {set(ports)}"
        elif kind == "ServiceMonitor":
            services = [d for d in manifest if d["kind"] == "Service" and
                        selects(body["selector"]["matchLabels"], d["metadata"]["labels"])]
            with_port = [d for d in services if body["endpoints"][0]["port"] in {p["name"] for p in d["spec"]["ports"]}]
            assert len(with_port) == 1, f"{where}: {len(with_port)} services have its port, expected one"
        elif kind in ("HorizontalPodAutoscaler", "ScaledObject"):
            assert body["scaleTargetRef"]["name"] == name, f"{where} scales {body['scaleTargetRef']['name']}"
        elif kind == "PersistentVolumeClaim":
            claims = [volume["persistentVolumeClaim"]["claimName"] for volume in spec["volumes"]
                      if "persistentVolumeClaim" in volume]
            assert claims == [document["metadata"]["name"]], f"{where}: the pods claim {claims}"


def check_restricted(manifest):
    """All pods pass the restricted profile of Kubernetes' pod security standards."""
    check_pod_restricted(one(manifest, "Deployment")["spec"]["template"]["spec"])
    for document in manifest:
        if document["kind"] == "Pod":
            check_pod_restricted(document["spec"])


def check_pod_restricted(spec):
    pod = spec["securityContext"]
    assert pod["runAsNonRoot"] is True and pod["seccompProfile"]["type"] == "RuntimeDefault", pod
    assert pod["runAsUser"] > 0, pod
    assert not spec.get("hostNetwork") and not spec.get("hostPID") and not spec.get("hostIPC"), "host namespaces"
    assert spec["automountServiceAccountToken"] is False, "a token of the service account is mounted"
    for container in spec["containers"] + spec.get("initContainers", []):
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False and context["capabilities"] == {"drop": ["ALL"]}, context
    allowed = {"emptyDir", "secret", "persistentVolumeClaim", "configMap", "projected"}
    for volume in spec.get("volumes", []):
        assert set(volume) - {"name"} <= allowed, volume


def check_canary(stable, canary):
    """Pods of the canary answer behind the stable release's Service, and only the canary's objects are its own."""
    labels = one(canary, "Deployment")["spec"]["template"]["metadata"]["labels"]
    for service in [document for document in stable if document["kind"] == "Service"]:
        assert selects(service["spec"]["selector"], labels), f"Service {service['metadata']['name']} misses the canary"
    selector = one(stable, "Deployment")["spec"]["selector"]["matchLabels"]
    assert not selects(selector, labels), "the stable Deployment would adopt the canary's pods"
    assert not [document for document in canary if document["kind"] == "Service"], "the canary has a Service"


def check_rule_object(manifest):
    """The chart's PrometheusRule holds the rules of deploy/prometheus, with addresses of the values."""
    with open(os.path.join(tools.DEPLOY, "prometheus", "rules.yaml")) as file:
        text = file.read().replace("runbook_url: deploy/README.md", "runbook_url: https://wiki.example.org/ckn")
    assert one(manifest, "PrometheusRule")["spec"] == yaml.safe_load(text), "PrometheusRule differs from rules.yaml"
    with open(os.path.join(tools.DEPLOY, "grafana", "ckn.json")) as file:
        expected = json.load(file)
    assert json.loads(one(manifest, "ConfigMap")["data"]["ckn.json"]) == expected, "the ConfigMap's dashboard differs"

"""Manifests and the dashboard against the type declarations of their schemas, strictly.

Each becomes a typed literal of a TypeScript file, and the compiler says which field is misspelt, missing or of a wrong
type: for a literal, it refuses fields that the type does not have.
"""

import json
import os
import re
import shutil

import tools

# kind -> (module, type)
KUBERNETES = "kubernetes-types"
OPERATOR = "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1"
TYPES = {
    "Deployment": (f"{KUBERNETES}/apps/v1", "Deployment"),
    "Job": (f"{KUBERNETES}/batch/v1", "Job"),
    "Pod": (f"{KUBERNETES}/core/v1", "Pod"),
    "Service": (f"{KUBERNETES}/core/v1", "Service"),
    "ServiceAccount": (f"{KUBERNETES}/core/v1", "ServiceAccount"),
    "ConfigMap": (f"{KUBERNETES}/core/v1", "ConfigMap"),
    "Namespace": (f"{KUBERNETES}/core/v1", "Namespace"),
    "PersistentVolumeClaim": (f"{KUBERNETES}/core/v1", "PersistentVolumeClaim"),
    "NetworkPolicy": (f"{KUBERNETES}/networking/v1", "NetworkPolicy"),
    "PodDisruptionBudget": (f"{KUBERNETES}/policy/v1", "PodDisruptionBudget"),
    "HorizontalPodAutoscaler": (f"{KUBERNETES}/autoscaling/v2", "HorizontalPodAutoscaler"),
    "ServiceMonitor": (f"{OPERATOR}/ServiceMonitor", "IServiceMonitor"),
    "PodMonitor": (f"{OPERATOR}/PodMonitor", "IPodMonitor"),
    "PrometheusRule": (f"{OPERATOR}/PrometheusRule", "IPrometheusRule"),
    "ScaledObject": ("@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject", "IScaledObject"),
    "ServingRuntime": ("./kserve", "ServingRuntime"),
    "InferenceService": ("./kserve", "InferenceService"),
}
API_VERSIONS = {
    "Deployment": "apps/v1", "NetworkPolicy": "networking.k8s.io/v1", "PodDisruptionBudget": "policy/v1",
    "HorizontalPodAutoscaler": "autoscaling/v2", "Job": "batch/v1", "Pod": "v1", "Service": "v1", "ServiceAccount": "v1", "ConfigMap": "v1",
    "Namespace": "v1", "PersistentVolumeClaim": "v1",
}  # those of the others are part of their types
GRAFANA = "./node_modules/@grafana/schema/dist/types/raw"


def manifest_literals(name, documents):
    """[(label, module, type, value)]; ValueError for a kind or version that is not known."""
    literals = []
    for document in documents:
        kind = document["kind"]
        label = f"{name}: {kind} {document['metadata']['name']}"
        if kind not in TYPES:
            raise ValueError(f"{label}: unknown kind, expected one of {', '.join(sorted(TYPES))}")
        expected = API_VERSIONS.get(kind, document["apiVersion"])
        if document["apiVersion"] != expected:
            raise ValueError(f"{label}: apiVersion: got {document['apiVersion']}, expected {expected}")
        literals.append((label, *TYPES[kind], document))
    return literals


def dashboard_literals(dashboard):
    """The dashboard as a whole, and what its type leaves open: the options of each panel, by its kind."""
    literals = [("dashboard", f"{GRAFANA}/dashboard/x/types.gen", "Dashboard", dashboard)]
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            continue
        module = f"{GRAFANA}/composable/{panel['type']}/panelcfg/x/types.gen"
        if not os.path.exists(os.path.join(tools.FOLDER, module + ".d.ts")):
            raise ValueError(f"panel \"{panel['title']}\": unknown type {panel['type']}")
        label = f"dashboard: panel \"{panel['title']}\""
        literals.append((f"{label}: options", module, "Partial<Options>", panel["options"]))
        custom = panel["fieldConfig"]["defaults"].get("custom")
        if custom is not None:
            literals.append((f"{label}: custom", module, "FieldConfig", custom))
    return literals


# Enumerations are nominal in TypeScript: their values cannot be written as text. They are checked as what they are.
PRELUDE = """
type Plain<T> = T extends string ? `${T}` : T extends (infer U)[] ? Plain<U>[] :
  T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
"""


def errors(literals):
    """What the compiler says, each line with the literal's label; empty: all are right."""
    shutil.copy(os.path.join(tools.HERE, "kserve.d.ts"), tools.FOLDER)
    file = os.path.join(tools.FOLDER, "check.ts")
    lines = PRELUDE.strip("\n").split("\n")
    owners = [None] * len(lines)
    for number, (label, module, type_name, value) in enumerate(literals):
        inner = re.sub(r"\w+(?=>?$)", lambda found: f"import({json.dumps(module)}).{found[0]}", type_name, count=1)
        if module.startswith(GRAFANA):
            inner = f"Plain<{inner}>"
        text = f"export const value{number}: {inner} = {json.dumps(value, indent=1)};"
        owners += [label] * (text.count("\n") + 1)
        lines += text.split("\n")
    with open(file, "w") as out:
        out.write("\n".join(lines) + "\n")
    tsc = os.path.join(tools.MODULES, "typescript", "bin", "tsc")
    code, out, _ = tools.run("node", tsc, "--noEmit", "--strict", "--skipLibCheck", "--target", "es2022", "--module",
                             "es2022", "--moduleResolution", "bundler", file)
    found = []
    for line in out.splitlines():
        place = re.match(r".*check\.ts\((\d+),\d+\): (.*)", line)
        if place:
            index = int(place[1]) - 1
            found.append(f"{owners[index]}: {lines[index].strip()}: {place[2]}")
        else:
            found.append(line)
    if code != 0 and not found:
        found.append(f"the compiler ended with exit code {code}")
    return found

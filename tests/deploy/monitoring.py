"""What deploy/ says about metrics: the queries of the rules, the dashboard and the autoscalers, and the names in them."""

import json
import os
import re

import tools
import yaml

RULES = os.path.join(tools.DEPLOY, "prometheus", "rules.yaml")
RULES_TEST = os.path.join(tools.DEPLOY, "prometheus", "rules_test.yaml")
DASHBOARD = os.path.join(tools.DEPLOY, "grafana", "ckn.json")
ADAPTER = os.path.join(tools.DEPLOY, "prometheus", "adapter.yaml")
GUIDE = os.path.join(tools.DEPLOY, "README.md")

# Not from `ckn serve`, but from what a cluster has beside it: kube-state-metrics, cAdvisor, Prometheus itself.
OF_OTHERS = {
    "ALERTS",
    "container_cpu_cfs_periods_total",
    "container_cpu_cfs_throttled_periods_total",
    "container_cpu_usage_seconds_total",
    "container_memory_working_set_bytes",
    "kube_pod_container_status_restarts_total",
}
KEYWORDS = {"and", "or", "unless", "bool", "offset", "by", "without", "on", "ignoring", "group_left", "group_right",
            "inf", "nan"}


def rules(kind):
    """The rules of a kind, "record" or "alert", as the file has them."""
    with open(RULES) as file:
        groups = yaml.safe_load(file)["groups"]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


def dashboard():
    with open(DASHBOARD) as file:
        return json.load(file)


def dashboard_queries():
    """[(panel's title, query)], with the dashboard's variables replaced by what Grafana puts there for "All"."""
    queries = []
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", []):
            query = target["expr"].replace("$__rate_interval", "30s")
            query = query.replace("$namespace", ".*").replace("$job", ".*")
            queries.append((panel["title"], query))
    return queries


def adapter_query(series, matchers, group_by):
    """The Prometheus adapter's query for a metric, as the adapter makes it."""
    with open(ADAPTER) as file:
        (rule,) = yaml.safe_load(file)["rules"]["custom"]
    query = rule["metricsQuery"]
    for name, value in (("Series", series), ("LabelMatchers", matchers), ("GroupBy", group_by)):
        query = query.replace(f"<<.{name}>>", value)
    return query


def metric_names(query):
    """Names of the metrics that a PromQL query reads."""
    query = re.sub(r'"[^"]*"|\'[^\']*\'', '""', query)
    query = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", query)
    query = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", query)
    names = re.findall(r"(?<![\w:.])[a-zA-Z_:][\w:]*(?!\s*\(|[\w:])", query)
    return {name for name in names if name not in KEYWORDS}


def exported_names(page):
    """Names of the samples of a /metrics page."""
    return {re.match(r"[\w:]+", line)[0] for line in page.splitlines() if line and not line.startswith("#")}


def label_values(text):
    """{label: values} of a /metrics page, or of the selectors in queries with = and =~; regular expressions of words only."""
    values = {}
    for label, value in re.findall(r'(\w+)=~?"((?:[^"\\]|\\.)*)"', text):
        values.setdefault(label, set()).update(value.split("|"))
    return values


def all_queries():
    """[(where, query)] of rules, dashboard and adapter."""
    queries = [(f"rule {rule.get('record') or rule.get('alert')}", rule["expr"])
               for rule in rules("record") + rules("alert")]
    queries += [(f"panel \"{title}\"", query) for title, query in dashboard_queries()]
    return queries + [("adapter.yaml", adapter_query("ckn_in_flight_requests", "", "pod"))]


def unknown_values(page):
    """["where: label=value"] of what queries ask for by method, status, stage or the like, and the server does not have."""
    exported = label_values(page)
    return [f"{where}: {label}={value}" for where, query in all_queries()
            for label, values in label_values(query).items() if label in ("method", "code", "stage", "outcome", "le")
            for value in sorted(values - exported[label])]


def unknown_names(page):
    """["where: name"] of the metrics that rules, dashboard or adapter read and nobody exports."""
    known = exported_names(page) | OF_OTHERS | {rule["record"] for rule in rules("record")}
    queries = all_queries()
    queries += [("dashboard variable", re.search(r"\((\w+)", variable["query"]["query"])[1])
                for variable in dashboard()["templating"]["list"] if variable["type"] == "query"]
    return [f"{where}: {name}" for where, query in queries for name in sorted(metric_names(query) - known)]


def guide():
    """The operator's guide without code."""
    with open(GUIDE) as file:
        return re.sub(r"^```.*?^```|`[^`\n]*`", "", file.read(), flags=re.M | re.S)


def headings():
    """Anchors of the guide's headings."""
    titles = re.findall(r"^#+ +(.*)$", guide(), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}

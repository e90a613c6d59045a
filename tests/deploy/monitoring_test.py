"""What can be checked of rules and dashboard without network, cluster or load: names of metrics, runbooks, layout.

./run e2e-deploy does the rest.
"""

import argparse
import os
import re
import subprocess
import sys
import unittest
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "e2e"))

import ckn_e2e
import monitoring

PARSER = argparse.ArgumentParser()
PARSER.add_argument("--ckn", required=True, help="the ckn binary")
PARSER.add_argument("--write-tiny-model", required=True, help="the write_tiny_model binary")
ARGUMENTS = PARSER.parse_args()


def metrics_page():
    with ckn_e2e.temporary_folder() as folder:
        subprocess.run([ARGUMENTS.write_tiny_model, os.path.join(folder, "tiny.ckn")], check=True)
        with ckn_e2e.Server(ARGUMENTS.ckn, folder) as server:
            with urllib.request.urlopen(f"http://{server.http}/metrics", timeout=60) as reply:
                return reply.read().decode()


# Calls without images; they are no part of the objectives.
NO_INFERENCE = {"GetModel", "ListModels", "ModelConfig", "ModelMetadata", "RepositoryIndex", "RepositoryModelLoad",
                "RepositoryModelUnload"}


class MonitoringTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = metrics_page()

    def test_rules_and_dashboard_read_metrics_that_the_server_exports(self):
        self.assertEqual(monitoring.unknown_names(self.page), [])
        self.assertEqual(monitoring.unknown_values(self.page), [])

    def test_the_objective_of_errors_covers_every_method_with_images(self):
        (rule,) = [rule for rule in monitoring.rules("record") if rule["record"] == "ckn:request_errors:ratio_rate5m"]
        covered = monitoring.label_values(rule["expr"])["method"]
        self.assertEqual(covered, monitoring.label_values(self.page)["method"] - NO_INFERENCE)

    def test_names_in_queries_are_found(self):
        query = 'sum by (a, le) (rate(ckn_x_bucket{b=~"c|d", e="f"}[5m])) / on (job) group_left (v) k:l:m > 0.1 * 14.4'
        self.assertEqual(monitoring.metric_names(query), {"ckn_x_bucket", "k:l:m"})

    def test_each_alert_has_a_runbook_entry_in_the_guide(self):
        headings = monitoring.headings()
        for rule in monitoring.rules("alert"):
            with self.subTest(rule["alert"]):
                path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
                self.assertEqual(path, "deploy/README.md")
                self.assertEqual(anchor, rule["alert"].lower())
                self.assertIn(anchor, headings)

    def test_the_guide_names_panels_and_headings_that_exist(self):
        text = monitoring.guide()
        titles = {panel["title"] for panel in monitoring.dashboard()["panels"]}
        named = {" ".join(name.split()) for name in re.findall(r"(?<!\*)\*(\w[^*]*)\*(?!\*)", text)}
        self.assertLessEqual(named, titles)
        self.assertLessEqual(set(re.findall(r"\(#([^)]*)\)", text)), monitoring.headings())

    def test_each_alert_has_unit_tests(self):
        with open(monitoring.RULES_TEST) as file:
            tests = monitoring.yaml.safe_load(file)["tests"]
        cases = [case for test in tests for case in test.get("alert_rule_test", [])]
        for rule in monitoring.rules("alert"):
            with self.subTest(rule["alert"]):
                mine = [bool(case.get("exp_alerts")) for case in cases if case["alertname"] == rule["alert"]]
                self.assertEqual(set(mine), {True, False}, "expected a case that fires and one that does not")

    def test_panels_do_not_overlap_and_have_ids_of_their_own(self):
        panels = monitoring.dashboard()["panels"]
        self.assertEqual(len({panel["id"] for panel in panels}), len(panels))
        taken = {}
        for panel in panels:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    other = taken.setdefault((x, y), panel["title"])
                    self.assertEqual(other, panel["title"], f"both are at {x}, {y}")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)

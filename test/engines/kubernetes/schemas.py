"""Writes the JSON schemas that kubeconform needs into a directory.

Those of Kubernetes come with kubernetes-validate, where each refers to one file with all definitions by a web address:
here each gets the definitions that it needs. Those of custom resources are made from the models of cloudcoil, which are
made from the resources' definitions. All are strict: no other properties than the known ones.
"""

import json
import sys
from importlib import import_module
from pathlib import Path

import kubernetes_validate

CUSTOM = {
    "cloudcoil.models.keda.v1alpha1": ["ScaledObject", "TriggerAuthentication"],
    "cloudcoil.models.prometheus_operator.v1": ["ServiceMonitor", "PrometheusRule"],
}
REFERENCE = "/api/_definitions.json#/$defs/"


def references(node):
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"].rpartition("/")[2]
        for child in node.values():
            yield from references(child)
    elif isinstance(node, list):
        for child in node:
            yield from references(child)


def whole(schema, definitions):
    """The schema with the definitions that it needs, and without an address."""
    needed, waiting = {}, list(references(schema))
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = definitions[name]
            waiting.extend(references(definitions[name]))
    text = json.dumps({**schema, "$defs": needed}).replace(REFERENCE, "#/$defs/")
    return {key: value for key, value in json.loads(text).items() if key != "$id"}


def strict(node):
    if isinstance(node, list):
        return [strict(child) for child in node]
    if not isinstance(node, dict):
        return node
    closed = {key: strict(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        closed.setdefault("additionalProperties", False)
    return closed


def main(target, *versions):
    source = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    for version in versions:
        directory = source / f"v{version}-local-strict"
        definitions = json.loads((directory / "_definitions.json").read_text())["$defs"]
        for kind in ["configmap-v1", "deployment-apps-v1", "networkpolicy-networking-v1", "poddisruptionbudget-policy-v1", "service-v1", "serviceaccount-v1"]:
            schema = whole(json.loads((directory / f"{kind}.json").read_text()), definitions)
            write(Path(target, version, f"{kind}.json"), schema)
    for module, names in CUSTOM.items():
        for name in names:
            schema = getattr(import_module(module), name).model_json_schema(by_alias=True)
            write(Path(target, "custom", f"{name.lower()}.json"), strict(schema))


def write(path, schema):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(schema))


main(*sys.argv[1:])

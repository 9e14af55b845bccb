"""cluster/rayjob.yaml and its Dockerfile against the schemas of KubeRay and Kubernetes; seeded mistakes are found."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from jsonschema import Draft202012Validator

from orchestrator.cli.main import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "cluster" / "rayjob.yaml").read_text()
SCHEMA = Draft202012Validator(json.loads(Path(__file__).with_name("kubernetes.schema.json").read_text()))
RAY_VERSION = re.search(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text(), re.M).group(1)  # type: ignore[union-attr]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
IMAGE = f"registry.example.com/lengthwise:{VERSION}"

Object = dict[str, Any]


def faults(text: str) -> list[str]:
    """Everything that is wrong with a manifest: unknown fields and wrong types first, then what it refers to."""
    documents = list(yaml.safe_load_all(text))
    return list(schema_faults(documents)) or list(reference_faults(text, documents))


def schema_faults(documents: list[Object]) -> Iterator[str]:
    for document in documents:
        schema = SCHEMA.evolve(schema={**SCHEMA.schema, "$ref": f"#/$defs/{document.get('kind')}"})
        for error in schema.iter_errors(document) if document.get("kind") in SCHEMA.schema["$defs"] else ():
            yield f"{document['kind']}: {error.json_path}: {error.message}"
        if document.get("kind") not in SCHEMA.schema["$defs"]:
            yield f"{document.get('kind')}: unknown kind"


def reference_faults(text: str, documents: list[Object]) -> Iterator[str]:
    names = [(document["kind"], document["metadata"]["name"]) for document in documents]
    if len(set(names)) != len(names):
        yield "an object twice"
    claims = {
        document["metadata"]["name"]: document["spec"]["accessModes"]
        for document in documents
        if document["kind"].endswith("Claim")
    }
    (deployment,) = [document for document in documents if document["kind"] == "Deployment"]
    (service,) = [document for document in documents if document["kind"] == "Service"]
    (job,) = [document["spec"] for document in documents if document["kind"] == "RayJob"]
    cluster = job["rayClusterSpec"]
    groups = [cluster["headGroupSpec"], *cluster["workerGroupSpecs"]]
    for pod in (deployment["spec"]["template"]["spec"], *(group["template"]["spec"] for group in groups)):
        yield from pod_faults(pod, claims)
    for group in groups:
        yield from storage_faults(group["template"]["spec"], claims)
    yield from mlflow_faults(deployment["spec"], service, job["entrypoint"])
    yield from job_faults(text, job)


def pod_faults(pod: Object, claims: Object) -> Iterator[str]:
    user = pod.get("securityContext", {})
    if user.get("runAsNonRoot") is not True or user.get("runAsUser", 0) != 1000:
        yield "a pod runs as root"
    volumes = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]}
    yield from (f"no claim {claim}" for claim in volumes.values() if claim not in claims)
    for container in pod["containers"]:
        yield from (f"no volume {mount['name']}" for mount in container["volumeMounts"] if mount["name"] not in volumes)
        if container["securityContext"] != {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}:
            yield "a container may gain rights"
        if container["image"] != IMAGE:
            yield f"another image than {IMAGE}"
        if not {"cpu", "memory"} <= container.get("resources", {}).get("requests", {}).keys():
            yield "no resource requests"


def storage_faults(pod: Object, claims: Object) -> Iterator[str]:
    volumes = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]}
    for container in pod["containers"]:
        shared = [
            mount["mountPath"]
            for mount in container["volumeMounts"]
            if claims.get(volumes.get(mount["name"])) == ["ReadWriteMany"]
        ]
        environment = {variable["name"]: variable["value"] for variable in container["env"]}
        if environment.get("LENGTHWISE_STORAGE") not in shared:
            yield "no shared storage"
        if container["resources"]["limits"] != container["resources"]["requests"]:
            yield "Ray would see other resources than the pod has"


def mlflow_faults(deployment: Object, service: Object, entrypoint: str) -> Iterator[str]:
    (container,) = deployment["template"]["spec"]["containers"]
    labels = deployment["template"]["metadata"]["labels"]
    if not deployment["selector"]["matchLabels"] == service["spec"]["selector"] == labels:
        yield "the service selects no pod"
    ((name, port),) = [(service["metadata"]["name"], port["port"]) for port in service["spec"]["ports"]]
    if f" --tracking-uri http://{name}:{port}" not in entrypoint:
        yield "the sweep looks for MLflow elsewhere"
    if f"--port={port}" not in container["command"] or container["ports"][0]["containerPort"] != port:
        yield "MLflow listens at another port"
    (hosts,) = [word for word in container["command"] if word.startswith("--allowed-hosts=")]
    if f"{name}:{port}" not in hosts.partition("=")[2].split(","):
        yield "MLflow would reject the sweep"
    if deployment["replicas"] != 1 or deployment["strategy"] != {"type": "Recreate"}:
        yield "two servers write one SQLite file"


def job_faults(text: str, job: Object) -> Iterator[str]:
    cluster = job["rayClusterSpec"]
    secret = re.findall(r"^#   kubectl create secret generic (\S+) --from-literal=auth_token=", text, re.M)
    if cluster.get("authOptions") != {"mode": "token", "secretName": secret[0]}:
        yield "token authentication is off or its secret is missing"
    if cluster["rayVersion"] != RAY_VERSION:
        yield "another Ray version than constraints.txt"
    if job["backoffLimit"] and " --resume" not in job["entrypoint"]:
        yield "a retry would find the sweep begun"
    if job.get("ttlSecondsAfterFinished") and not job.get("shutdownAfterJobFinishes"):
        yield "ttl without shutdown"
    if not cluster.get("enableInTreeAutoscaling"):
        yield "no autoscaler"
    for group in cluster["workerGroupSpecs"]:
        if not group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]:
            yield "replicas"
    gpus = [group for group in cluster["workerGroupSpecs"] if "nvidia.com/gpu" in json.dumps(group["template"]["spec"])]
    if [(group["minReplicas"], group["maxReplicas"] > 0) for group in gpus] != [(0, True)]:
        yield "GPUs are not scaled from zero"


def test_the_manifest_has_known_fields_only_and_everything_it_refers_to() -> None:
    assert faults(TEXT) == []
    kinds = [document["kind"] for document in yaml.safe_load_all(TEXT)]
    assert sorted(kinds) == ["Deployment", *2 * ["PersistentVolumeClaim"], "RayJob", "Service"]
    assert "kind: Secret" not in TEXT  # a token in a repository would be everybody's


@pytest.mark.parametrize(
    ("right", "wrong", "fault"),
    [
        ("apiVersion: ray.io/v1\n", "apiVersion: ray.io/v1alpha1\n", "'ray.io/v1' was expected"),
        ("kind: RayJob", "kind: RayJobs", "unknown kind"),
        ("ttlSecondsAfterFinished", "ttlSeconds", "'ttlSeconds' was unexpected"),
        ("minReplicas: 0", "min_replicas: 0", "'min_replicas' was unexpected"),
        ("minReplicas: 0", "minReplicas: none", "'none' is not of type 'integer'"),
        ("        minReplicas: 0\n", "", "'minReplicas' is a required property"),
        ('num-cpus: "0"', "num-cpus: 0", "0 is not of type 'string'"),
        ("mode: token", "mode: tokens", "'tokens' is not one of ['disabled', 'token']"),
        ("secretName:", "secret:", "'secret' was unexpected"),
        ("mountPath: /sweeps", "path: /sweeps", "'mountPath' is a required property"),
        ("memory: 16Gi", "memory: 16GB", "'16GB' is not valid"),
        ("fsGroup: 1000", 'fsGroup: "1000"', "'1000' is not of type 'integer'"),
        ("strategy: {type: Recreate}", "strategy: Recreate", "'Recreate' is not of type 'object'"),
        ("  name: lengthwise-sweeps\n", "  name: sweeps\n", "no claim lengthwise-sweeps"),
        ("{claimName: lengthwise-mlflow}", "{claimName: mlflow}", "no claim mlflow"),
        ("[ReadWriteMany]", "[ReadWriteOnce]", "no shared storage"),
        ("value: /sweeps", "value: /tmp", "no shared storage"),
        ("secretName: lengthwise-ray-token", "secretName: token", "token authentication is off"),
        ("      secretName: lengthwise-ray-token\n", "", "token authentication is off"),
        ("mode: token", "mode: disabled", "token authentication is off"),
        ("--tracking-uri http://lengthwise-mlflow:5000", "--tracking-uri http://mlflow:5000", "looks for MLflow"),
        ("--allowed-hosts=lengthwise-mlflow:5000,", "--allowed-hosts=", "MLflow would reject the sweep"),
        ("selector: {app: lengthwise-mlflow}", "selector: {app: mlflow}", "the service selects no pod"),
        ("quickstart.yaml --resume", "quickstart.yaml", "a retry would find the sweep begun"),
        ("shutdownAfterJobFinishes: true", "shutdownAfterJobFinishes: false", "ttl without shutdown"),
        ("enableInTreeAutoscaling: true", "enableInTreeAutoscaling: false", "no autoscaler"),
        ("minReplicas: 0", "minReplicas: 1", "GPUs are not scaled from zero"),
        ("requests: {cpu: 500m, memory: 1Gi}", "requests: {cpu: 500m}", "no resource requests"),
        ("limits: {cpu: \"2\", memory: 6Gi}", "limits: {cpu: \"4\", memory: 6Gi}", "other resources than the pod"),
        ("runAsNonRoot: true", "runAsNonRoot: false", "runs as root"),
        ("&rights {allowPrivilegeEscalation: false", "&rights {allowPrivilegeEscalation: true", "may gain rights"),
        (f"image: {IMAGE}", "image: registry.example.com/lengthwise:latest", "another image"),
        (f'rayVersion: "{RAY_VERSION}"', 'rayVersion: "2.59.0"', "another Ray version"),
    ],
)  # fmt: skip
def test_a_seeded_mistake_is_found(right: str, wrong: str, fault: str) -> None:
    assert right in TEXT
    assert any(fault in message for message in faults(TEXT.replace(right, wrong)))


def test_the_job_runs_a_sweep_file_with_options_that_exist() -> None:
    (job,) = [document["spec"] for document in yaml.safe_load_all(TEXT) if document["kind"] == "RayJob"]
    python, dash, module, verb, *arguments = shlex.split(job["entrypoint"])
    assert (python, dash, module, verb) == ("python", "-m", "orchestrator", "run")
    parsed = typer.main.get_command(app).commands[verb].make_context(verb, arguments).params  # type: ignore[attr-defined]
    assert parsed["resume"] and (ROOT / parsed["file"]).is_file()


def test_the_image_is_pinned_to_the_versions_of_the_repository_and_is_not_of_root() -> None:
    lines = (ROOT / "cluster" / "Dockerfile").read_text().splitlines()
    (base,) = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert base == f"rayproject/ray:{RAY_VERSION}-py311-cpu"
    assert [line for line in lines if line.startswith("USER ")] == ["USER 1000"]
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[2:-1]]
    assert "constraints.txt" in copied and all((ROOT / name).exists() for name in copied)
    modules = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {path.name for path in ROOT.glob("*.py")}
    assert modules <= set(copied)

"""A sweep on Kubernetes: ``python -m smrkit.cluster.on_kubernetes /data/caches.toml --image IMAGE --claim CLAIM``.

It needs

- ``pip install dask-kubernetes`` (2026) on this machine
- Dask's operator in the cluster (``helm install --repo https://helm.dask.org --create-namespace -n dask-operator --generate-name
  dask-kubernetes-operator``)
- an image with the same versions of smrkit and dask[distributed] as here, such as the one that Containerfile makes
- a volume claim that many pods may write to, mounted at /data in the pods and on this machine. Traces and the store are there.
"""

import argparse
from pathlib import Path

try:
    from dask_kubernetes.operator import KubeCluster, make_cluster_spec
except ModuleNotFoundError as missing:
    raise SystemExit(f"no module {missing.name} here: pip install dask-kubernetes") from None

import smrkit

DATA = "/data"


def specification(image, claim, workers):
    """The specification of pods for the scheduler and for workers with two threads each."""
    # A task that was on several nodes that were taken away has not failed itself.
    settings = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "100"}
    limits = {"limits": {"cpu": "2", "memory": "4Gi"}}
    cluster = make_cluster_spec(name="smrkit", image=image, n_workers=workers, resources=limits, env=settings)
    for part in ("scheduler", "worker"):
        (container,) = cluster["spec"][part]["spec"]["containers"]
        # The specification calls dask-scheduler and dask-worker, which distributed has no longer had since 2026.7.
        container["command"], container["args"] = ["dask", part], container["args"][1:]
    worker = cluster["spec"]["worker"]["spec"]
    worker["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    worker["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": DATA}]
    return cluster


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Computes a sweep in pods of Kubernetes.")
    parser.add_argument("file", type=Path, help=f"the sweep's file, whose paths begin with {DATA}")
    parser.add_argument("--image", required=True, help="with smrkit and dask[distributed]")
    parser.add_argument("--claim", required=True, help=f"the volume claim that is mounted at {DATA}")
    parser.add_argument("--workers", type=int, default=8, help="how many pods compute (8)")
    asked = parser.parse_args()
    with KubeCluster(custom_cluster_spec=specification(asked.image, asked.claim, asked.workers)) as pods, pods.get_client() as client:
        store = Path(DATA, asked.file.with_suffix(".results").name)
        print(smrkit.sweep(asked.file, store=store, executor=client, progress=True))

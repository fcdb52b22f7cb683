"""A sweep on Kubernetes: ``python kubernetes.py caches.toml --image IMAGE --claim CLAIM``.

Takes ``pip install dask-kubernetes`` here, Dask's operator in the cluster (``helm install --repo https://helm.dask.org
--create-namespace -n dask-operator --generate-name dask-kubernetes-operator``), an image with smrkit and dask[distributed] of the same
versions as here, and a volume claim that many pods may write to. It is mounted at /data in the pods and here: the traces and the store
lie there.
"""

import argparse
from pathlib import Path

from dask_kubernetes.operator import KubeCluster, make_cluster_spec

import smrkit

DATA = "/data"


def specification(image, claim, workers):
    """The pods of the scheduler and of workers with two threads each."""
    limits = {"limits": {"cpu": "2", "memory": "4Gi"}}
    whole = make_cluster_spec(name="smrkit", image=image, n_workers=workers, resources=limits)
    pod = whole["spec"]["worker"]["spec"]
    pod["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": DATA}]
    # A node that is taken away is no fault of the tasks that were on it.
    scheduler = whole["spec"]["scheduler"]["spec"]["containers"][0]
    scheduler["env"] = [*(scheduler.get("env") or []), {"name": "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "value": "100"}]
    return whole


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path, help=f"a sweep's file whose paths begin with {DATA}")
    parser.add_argument("--image", required=True)
    parser.add_argument("--claim", required=True)
    parser.add_argument("--workers", type=int, default=8)
    asked = parser.parse_args()
    with KubeCluster(custom_cluster_spec=specification(asked.image, asked.claim, asked.workers)) as pods, pods.get_client() as client:
        store = Path(DATA, asked.file.with_suffix(".results").name)
        print(smrkit.sweep(asked.file, store=store, executor=client, progress=True))

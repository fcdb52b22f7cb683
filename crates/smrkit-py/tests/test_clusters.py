"""The cluster files with the packages of Dask that are installed: `scripts/need clusters` installs current ones."""

import json
import os
import runpy
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from importlib.util import find_spec
from pathlib import Path

import smrkit

SWEEP = 'drive = "tiny"\nlayer = ["drive-managed", "vguard"]\nworkload = "mix:count=200"\nrepeat = 3\n'
RUNS = 6
# Slurm's commands: jobs are run here, from a copy of the script, which Dask removes when sbatch returns.
SBATCH = """#!/bin/sh
for script; do :; done
id=$(($(cat "$JOBS/last" 2>/dev/null || echo 0) + 1))
echo $id >"$JOBS/last"
cp "$script" "$JOBS/$id.sh"
setsid sh "$JOBS/$id.sh" >"$JOBS/$id.log" 2>&1 </dev/null &
echo $! >"$JOBS/$id.pid"
echo "Submitted batch job $id"
"""
SCANCEL = """#!/bin/sh
for id; do kill -- "-$(cat "$JOBS/$id.pid")"; done
"""


class Clusters(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.file = self.folder / "caches.toml"
        self.file.write_text(SWEEP)

    def write_command(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    @unittest.skipUnless(find_spec("dask_jobqueue"), "there is no dask-jobqueue: scripts/need clusters")
    def test_slurm_gets_jobs_as_asked_which_compute_the_sweep(self):
        self.write_command("sbatch", SBATCH)
        self.write_command("scancel", SCANCEL)
        asked = {
            "jobs": "1",
            "cores": "2",
            "memory": "1GB",
            "walltime": "00:10:00",
            "partition": "short",
            "account": "disks",
            "interface": "lo",
            "prologue": "export MARK=set",
            "logs": "printed",
        }
        words = [word for name, value in asked.items() for word in (f"--{name}", value)]
        here = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}", "JOBS": str(self.folder)}
        command = [sys.executable, "-m", "smrkit.cluster.on_slurm", self.file, *words]
        ran = subprocess.run(command, env=here, cwd=self.folder, capture_output=True, text=True, timeout=300)
        self.assertIn(f"Swept(computed={RUNS}, found=0)", ran.stdout, ran.stderr + self.printed())
        self.assertEqual(RUNS, len(smrkit.results(self.file.with_suffix(".results"))))
        script = (self.folder / "1.sh").read_text().splitlines()
        for line in ("-p short", "-A disks", "-t 00:10:00", "--cpus-per-task=2", "--mem=954M"):
            self.assertIn(f"#SBATCH {line}", script)
        self.assertIn("#SBATCH -o printed/", "\n".join(script))
        self.assertTrue((self.folder / "printed").is_dir())
        worker = next(at for at, line in enumerate(script) if "--interface lo" in line)
        self.assertLess(script.index("export MARK=set"), worker)

    def printed(self):
        return "".join(path.read_text() for path in self.folder.glob("*.log"))

    @unittest.skipUnless(find_spec("dask_kubernetes"), "there is no dask-kubernetes: scripts/need clusters")
    def test_pods_of_kubernetes_run_a_scheduler_and_workers_that_compute_the_sweep(self):
        from dask_kubernetes.operator.controller.controller import build_scheduler_deployment_spec, build_worker_deployment_spec

        specification = runpy.run_module("smrkit.cluster.on_kubernetes")["specification"]
        whole = specification("registry.example/smrkit", "traces", 3)["spec"]
        self.assertEqual(3, whole["worker"]["replicas"])
        # As the operator makes pods of it, which run here.
        pods = {
            "scheduler": build_scheduler_deployment_spec("smrkit", whole["scheduler"]["spec"], {}, {}),
            "worker": build_worker_deployment_spec("smrkit-default", "default", "smrkit", "1", whole["worker"]["spec"], {}, {}),
        }
        address = self.folder / "scheduler.json"
        self.start(pods["scheduler"], ["--port", "0", "--dashboard-address", ":0", "--scheduler-file", str(address)])
        deadline = time.monotonic() + 300
        while not address.exists():
            self.assertLess(time.monotonic(), deadline, self.printed())
            time.sleep(0.1)
        scheduler = json.loads(address.read_text())["address"]
        pod = pods["worker"]["spec"]["template"]["spec"]
        self.start(pods["worker"], ["--dashboard-address", ":0"], DASK_SCHEDULER_ADDRESS=scheduler)
        swept = smrkit.sweep(self.file, store=self.folder / "store", executor=scheduler)
        self.assertEqual((RUNS, 0), swept)
        mounted = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
        claims = {volume["name"]: volume["persistentVolumeClaim"]["claimName"] for volume in pod["volumes"]}
        self.assertEqual(({"data": "/data"}, {"data": "traces"}), (mounted, claims))

    def start(self, deployment, more, **environment):
        """Runs what the container of a pod would, until the test ends."""
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        settings = {each["name"]: each["value"] for each in container["env"]} | environment
        words = [*container["command"], *container["args"]]
        for name, value in settings.items():
            words = [word.replace(f"$({name})", value) for word in words]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        with open(self.folder / f"{container['name']}.log", "w") as log:
            started = subprocess.Popen([*words, *more], env={**os.environ, **settings, "PATH": path}, cwd=self.folder, stdout=log, stderr=log)
        self.addCleanup(started.wait)
        self.addCleanup(started.terminate)


if __name__ == "__main__":
    unittest.main()

# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # From a sweep to a figure
#
# Lists of options multiply; results go to a store, and a second start computes nothing. `executor=` takes processes or a cluster of Dask.

# %%
import tempfile

import smrkit

store = tempfile.mkdtemp()
sweep = {
    "drive": "cassuto-random",
    "layer": "set-assoc",
    "workload": ["random-write:count=4k", "hot-cold:count=4k"],
    "set": {"set-assoc.cache_percent": [0.5, 1, 2, 4]},
    "repeat": 3,
}
print(smrkit.sweep(store=store, **sweep))
assert smrkit.sweep(store=store, **sweep).computed == 0

# %%
runs = smrkit.results(store).to_pandas()
means = runs.groupby(["workload", "parameters.cache_percent"])["write_amplification"].agg(["mean", "min", "max"])
means

# %%
import matplotlib.pyplot as plt

figure, axes = plt.subplots()
for workload, rows in means.groupby(level=0):
    x = rows.index.get_level_values(1)
    axes.fill_between(x, rows["min"], rows["max"], alpha=0.2)
    axes.plot(x, rows["mean"], marker="o", label=workload)
axes.set_xlabel("cache, % of the disk")
axes.set_ylabel("write amplification")
axes.legend()
assert len(means) == 8 and (means["mean"] >= 1).all()

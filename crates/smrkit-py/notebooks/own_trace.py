# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # From a trace of one's own to a verdict
#
# Would this load be at home on a drive-managed shingled disk? A trace is any table with a time, an operation, an address and a size.

# %%
import numpy as np
import smrkit

random = np.random.default_rng(7)
count = 20_000
requests = {
    "time_us": np.cumsum(random.exponential(15_000, count)).astype(np.uint64),
    "op": np.where(random.random(count) < 0.7, 1, 0).astype(np.uint8),
    "lba": random.integers(0, 400_000_000, count).astype(np.uint64) // 8 * 8,
    "sectors": random.choice([8, 16, 64, 256], count).astype(np.uint32),
}

# %% [markdown]
# By the trace's own times, against a conventional disk.

# %%
outcome = smrkit.run(requests=requests, drive="st5000as0011", layer="drive-managed", arrival="trace", latencies=True)
outcome

# %%
print(outcome.verdict.text)

# %% [markdown]
# Each request is a row of a table that pandas, polars and pyarrow take as it is.

# %%
latencies = outcome.latencies.to_pandas()
latencies.groupby("op")["latency_ns"].describe(percentiles=[0.5, 0.99])

# %%
assert len(latencies) == outcome.requests == count
assert int(latencies["latency_ns"].max()) == outcome.latency_ns.all.max
outcome.plot("longest_ns")

# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
# ---

# %% [markdown]
# # A layer of one's own, checked
#
# A layer says where each sector lies, and how it gets there. The disk underneath checks every access: what a write damages, and whether a
# read returns what was written last.

# %%
import bisect

import smrkit


class Bands(smrkit.Layer):
    """Bands of eight tracks; a write reads what follows it in its band, and writes it anew."""

    GUARD = 2

    def __init__(self, drive):
        self.lbas, self.pbas, self.host_sectors = [], [], 0
        for first in range(0, drive.tracks - 8, 8):
            self.lbas.append(self.host_sectors)
            self.pbas.append(drive.track_start(first))
            self.host_sectors += sum(drive.track_sectors(track) for track in range(first, first + 8 - self.GUARD))
        self.rewritten = 0

    def pieces(self, lba, sectors):
        """Parts of a request by band: its place, its length, what it is from the request's start, and what follows it in the band."""
        done = 0
        while done < sectors:
            band = bisect.bisect(self.lbas, lba + done) - 1
            end = self.lbas[band + 1] if band + 1 < len(self.lbas) else self.host_sectors
            length = min(sectors - done, end - lba - done)
            yield self.pbas[band] + lba + done - self.lbas[band], length, done, end - lba - done - length
            done += length

    def home(self, lba):
        return next(self.pieces(lba, 1))[0]

    def read(self, disk, lba, sectors, out):
        for pba, length, done, _ in self.pieces(lba, sectors):
            disk.read(pba, length, out, done, "host")

    def write(self, disk, lba, sectors, data):
        for pba, length, done, behind in self.pieces(lba, sectors):
            rest = disk.buffer(behind)
            if behind:
                disk.read(pba + length, behind, rest, 0, "clean")
            disk.write(pba, length, data, done, "host")
            if behind:
                disk.write(pba + length, behind, rest, 0, "clean")
            self.rewritten += behind

    def stats(self):
        return {"rewritten": self.rewritten}


smrkit.register("bands", Bands)

# %% [markdown]
# With `check=True` every read is verified, and nothing the host owns may ever be damaged.

# %%
load = {"drive": "tiny", "workload": "random-write:count=500", "check": True}
outcome = smrkit.run(layer="bands", **load)
print(outcome.write_amplification, outcome.layer_stats)
assert outcome.write_amplification > 2 and outcome.layer_stats.rewritten > 0

# %% [markdown]
# Without the tracks that keep a band's end from its neighbour, the check finds the fault, and says which write damaged which sector.


# %%
class Unguarded(Bands):
    """Bands without a guard."""

    GUARD = 0


smrkit.register("unguarded", Unguarded)
try:
    smrkit.run(layer="unguarded", **load)
except smrkit.FaultError as error:
    print(error)
else:
    raise AssertionError("the fault was not found")

# %% [markdown]
# Next to the layers that come with smrkit, on the same requests:

# %%
smrkit.compare(layer=["bands", "rmw"], set={"rmw.region_sectors": 256}, **load)

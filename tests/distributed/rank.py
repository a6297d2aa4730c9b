"""What each of several processes does in tests: trains one job after the other, and says what came of it.

    torchrun … tests/distributed/rank.py FOLDER

The first process leaves FOLDER/told.json.
"""

import json
import sys
from pathlib import Path

from bncl_pyg.errors import InputError
from bncl_pyg.ranks import process_group
from tests.distributed.jobs import make_jobs


def main(folder: Path) -> None:
    told = {}
    with process_group(60) as ranks:
        for name, job in make_jobs(folder, "two").items():
            try:
                job.run(ranks)
            except InputError as error:
                told[name] = str(error)
    if not ranks.rank:
        traffic = ranks.traffic.figures()
        (folder / "told.json").write_text(json.dumps({"errors": told, "traffic": traffic}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

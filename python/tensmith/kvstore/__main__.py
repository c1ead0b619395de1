"""Starts servers and workers on this machine, or one server by itself.

    python -m tensmith.kvstore --workers 4 [--servers 2] [--stale 3] [--restarts 2] [--checkpoint FOLDER] train.py [arguments ...]
    python -m tensmith.kvstore serve --workers 8 --address tcp://10.0.0.5:7040 [--token TEXT] [--above tcp://10.0.0.1:7040 --rank 2]

Workers find servers, their number and the token in the environment (docs/environment.md). The first form ends with the status of the first worker that
fails more often than `--restarts` says; the others are ended then.
"""

import argparse
import logging
import os
import pathlib
import signal
import subprocess
import sys
import time

from . import Server
from .connection import Connection

log = logging.getLogger("tensmith.kvstore")


def options():
    parser = argparse.ArgumentParser(prog="python -m tensmith.kvstore", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2, help="how many take part (2)")
    parser.add_argument("--stale", default="0", metavar="STEPS", help="0: rounds of all workers (default); N: a worker may be N steps ahead; any")
    parser.add_argument("--lost-after", type=float, default=5.0, metavar="SECONDS", help="of a worker that is silent for so long the others are told (5)")
    parser.add_argument("--on-loss", choices=("wait", "continue", "raise"), default="wait", help="what the others do then (wait)")
    parser.add_argument("--every", type=int, default=100, metavar="ROUNDS", help="how often checkpoints are written (100)")
    return parser


def staleness(text):
    return None if text == "any" else int(text)


def serve(arguments):
    parser = options()
    parser.add_argument("--address", default="tcp://127.0.0.1:*", help="where it listens")
    parser.add_argument("--token", default=os.environ.get("TENSMITH_KVSTORE_TOKEN", ""), help="what workers must show; better in TENSMITH_KVSTORE_TOKEN")
    parser.add_argument("--checkpoint", metavar="FILE", help="begun with where it exists, and written")
    parser.add_argument("--above", metavar="ADDRESSES", help="servers to which this one pushes the sums of its workers")
    parser.add_argument("--rank", type=int, default=0, help="its number among those that push to them")
    parser.add_argument("--part", default="0/1", metavar="NUMBER/COUNT", help="of several servers: which one this is, as its checkpoint says")
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    above = Connection(given.above.split(","), given.rank, given.token) if given.above else None
    try:
        server = started(given, above)
    except (ValueError, RuntimeError, OSError) as error:
        sys.exit(f"python -m tensmith.kvstore serve: {error}")
    print(server.address, flush=True)
    try:
        server.run()
    except KeyboardInterrupt:
        server.close()
    if above:
        above.close()
    return 0


def started(given, above):
    return Server(given.address, given.workers, staleness(given.stale), lost_after=given.lost_after, on_loss=given.on_loss, checkpoint=given.checkpoint,
                    every=given.every, token=given.token, upstream=above, part=tuple(map(int, given.part.split("/"))))  # fmt: skip


def started_servers(given):
    """Their processes, and where they listen."""
    processes = []
    for number in range(given.servers):
        command = [sys.executable, "-m", "tensmith.kvstore", "serve", "--workers", str(given.workers), "--stale", given.stale, "--lost-after",
                   str(given.lost_after), "--on-loss", given.on_loss, "--every", str(given.every), "--part", f"{number}/{given.servers}"]  # fmt: skip
        if given.checkpoint:
            given.checkpoint.mkdir(parents=True, exist_ok=True)
            command += ["--checkpoint", str(given.checkpoint / f"server-{number}.safetensors")]
        processes.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    addresses = [process.stdout.readline().strip() for process in processes]
    if not all(addresses):  # it has said why
        for process in processes:
            process.terminate()
            process.wait()
        sys.exit(1)
    return processes, ",".join(addresses)


def how_it_ended(status):
    return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"


def watch(start, workers, restarts):
    """Waits for all workers; one that fails is started again, so often. The status of all."""
    processes, left = {rank: start(rank) for rank in range(workers)}, restarts
    try:
        while processes:
            for rank, process in list(processes.items()):
                status = process.poll()
                if status is None:
                    continue
                del processes[rank]
                if status == 0:
                    continue
                again = left > 0
                log.warning("worker %d %s%s", rank, how_it_ended(status), "; it is started again" if again else "")
                if not again:
                    return status if status > 0 else 128 - status
                left -= 1
                processes[rank] = start(rank)
            time.sleep(0.05)
        return 0
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.wait()


def launch(arguments):
    parser = options()
    parser.add_argument("--servers", type=int, default=1, help="among how many processes the keys are shared out (1)")
    parser.add_argument("--restarts", type=int, default=0, help="how often a worker that fails is started again (0)")
    parser.add_argument("--checkpoint", type=pathlib.Path, metavar="FOLDER", help="of the servers' files")
    parser.add_argument("program", help="a Python program")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    servers, addresses = started_servers(given)
    environment = os.environ | {"TENSMITH_KVSTORE_SERVERS": addresses}

    def start(rank):
        return subprocess.Popen([sys.executable, given.program, *given.arguments], env=environment | {"TENSMITH_KVSTORE_RANK": str(rank)})

    status = 130
    try:
        status = watch(start, given.workers, given.restarts)
        return status
    except KeyboardInterrupt:
        return status
    finally:
        for server in servers:
            try:
                server.wait(5 if status == 0 else 0)
            except subprocess.TimeoutExpired:
                server.send_signal(signal.SIGINT)
                server.wait()


def main():
    logging.basicConfig(format="%(name)s: %(message)s")
    arguments = sys.argv[1:]
    return serve(arguments[1:]) if arguments[:1] == ["serve"] else launch(arguments)


if __name__ == "__main__":
    sys.exit(main())

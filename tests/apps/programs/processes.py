"""multiprocessing over TCP: `processes.py serve PORT`, `processes.py ask ADDRESS PORT`. PORT is a manager's; at the next one connections are handed to workers."""

import multiprocessing
import os
import sys
from multiprocessing import connection, managers, reduction

SECRET = b"between us"


class Board(managers.BaseManager):
    pass


def worker(pipe):
    """Gets connections from its parent through a Unix socket, and answers them."""
    while True:
        handle = reduction.recv_handle(pipe)
        conversation = connection.Connection(handle)
        try:
            while True:
                conversation.send((os.getpid(), conversation.recv() * 2))
        except EOFError:
            conversation.close()


def hand_out(port):
    ends = [multiprocessing.Pipe() for _ in range(3)]
    workers = [multiprocessing.Process(target=worker, args=(theirs,), daemon=True) for _, theirs in ends]
    for each in workers:
        each.start()
    with connection.Listener(("0.0.0.0", port), backlog=50) as listener:
        print("ready", flush=True)
        turn = 0
        while True:
            accepted = listener.accept()
            reduction.send_handle(ends[turn % 3][0], accepted.fileno(), workers[turn % 3].pid)
            accepted.close()
            turn += 1


def serve(port):
    values = {}
    Board.register("values", callable=lambda: values, proxytype=managers.DictProxy)
    board = Board(("0.0.0.0", port), SECRET)
    board.start()
    hand_out(port + 1)


def ask(address, port):
    Board.register("values", proxytype=managers.DictProxy)
    board = Board((address, port), SECRET)
    board.connect()
    values = board.values()
    for n in range(100):
        values[n] = "x" * n * 100
    print("values", len(values), sum(len(value) for value in values.values()))
    pids = set()
    for n in range(12):
        with connection.Client((address, port + 1)) as conversation:
            for word in ("a", "b" * 100_000):
                conversation.send(word)
                pid, answer = conversation.recv()
                assert answer == word * 2
                pids.add(pid)
    print("workers", len(pids))


if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    serve(int(sys.argv[2])) if sys.argv[1] == "serve" else ask(sys.argv[2], int(sys.argv[3]))
